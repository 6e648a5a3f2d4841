"""scripts/sweep, with the built program or one that only says how it was called."""

import json
import subprocess

import harness
from harness import COLD_START

SWEEP = harness.ROOT / "scripts" / "sweep"


class Sweep(harness.CliTest):
    def sweep(self, *arguments, program=None):
        return subprocess.run(
            [SWEEP, *arguments],
            cwd=self.folder,
            env=self.environment(MLA_BENCH_PROGRAM=str(program or harness.PROGRAM)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )

    def called(self, *arguments, devices="cuda:0  NVIDIA H200"):
        """The options that the program got, by name."""
        program = self.folder / "mla-bench"
        program.write_text(
            f"#!/bin/sh\nif [ $1 = list ]; then echo '{devices}'; else echo \"$@\"; fi\n"
        )
        program.chmod(0o755)
        done = self.sweep(*arguments, program=program)
        self.ends(done, 0)
        command, *words = done.stdout.replace("=", " ").split()
        self.assertEqual(command, "run")
        self.assertEqual(len(words) % 2, 0)
        self.assertEqual(len(set(words[::2])), len(words) // 2, "an option stands twice")
        return dict(zip(words[::2], words[1::2]))

    def test_defaults(self):
        options = self.called()
        rows = [int(t) for t in options["--seq"].split(",")]
        self.assertEqual((rows[0], rows[-1]), (1, 262144))
        self.assertEqual({b // a for a, b in zip(rows, rows[1:])}, {4})
        self.assertEqual(options["--batch"], "1")
        self.assertEqual(options["--precision"], "fp32,bf16")
        self.assertEqual(options["--variant"], "tensor_core,cublaslt")

    def test_variants_of_a_cpu(self):
        for options in (
            self.called(devices="no GPU: no driver"),
            self.called("--device", "cpu"),
            self.called("--device=cpu"),
        ):
            self.assertEqual(options["--variant"], "cooperative,blas")

    def test_options_take_the_place_of_defaults(self):
        given = ("--variant=tiled", "--seq", "2,3", "--json", "a.json", "--time-budget", "9")
        options = self.called(*given)
        self.assertEqual(options["--variant"], "tiled")
        self.assertEqual(options["--seq"], "2,3")
        self.assertEqual(options["--json"], "a.json")
        self.assertEqual(options["--time-budget"], "9")

    def test_one_document(self):
        options = "--seq 1,4 --variant tiled,cooperative --rounds 1 --quiet --json a.json".split()
        self.ends(self.sweep(*COLD_START, *options), 0)
        document = self.document(self.folder / "a.json")
        problem = {"batch": 1, "model_dim": 256, "rank": 48, "kv_heads": 4, "head_dim": 32}
        self.assertEqual(
            sorted(
                (c["variant"], c["precision"], json.dumps(c["problem"], sort_keys=True))
                for c in document["cells"]
            ),
            sorted(
                (variant, precision, json.dumps({**problem, "seq": seq}, sort_keys=True))
                for variant in ("tiled", "cooperative")
                for precision in ("fp32", "bf16")
                for seq in (1, 4)
            ),
        )

    def test_faults(self):
        for arguments, program, name in (
            (("--input", "a.safetensors"), None, "--input"),
            ((), self.folder / "none", "none"),
        ):
            done = self.sweep(*arguments, program=program)
            self.ends(done, 2)
            self.assertRegex(done.stderr, r"\Asweep: [^\n]+\n\Z")
            self.assertIn(name, done.stderr)
        # The program's own words and code for what it does not take.
        done = self.sweep("--variant", "tilde", *COLD_START)
        self.ends_with_one_line(done, 2, "tilde")


if __name__ == "__main__":
    harness.main()
