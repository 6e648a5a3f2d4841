"""mla-bench selftest on the CPU, and that nobody takes what it planted for a variant's own time."""

import json
import os
import subprocess
import sys
import textwrap

import harness

FINE, USAGE = 0, 2
CELLS = ["--variant", "tiled", "--device", "cpu", "--threads", "1", *harness.TINY]
# What is tested is the way, not the machine: few samples, and work that no neighbour's load hides.
QUICK = ["--rounds", "1", "--samples", "5", "--warmup", "0", "--processes", "5", "--quiet"]
RATES = harness.ROOT / "scripts" / "gate_rates"


class Selftest(harness.CliTest):
    def environment(self, **changes):
        return super().environment(XDG_CACHE_HOME=str(self.folder / "cache"), **changes)

    def selftest(self, *arguments, codes=(FINE,)):
        done = self.run_program(
            *["selftest", *CELLS, *QUICK, *arguments, "--format", "json"], timeout=200
        )
        self.assertIn(done.returncode, codes, done.stderr)
        return harness.parse_document(done.stdout)

    def test_wrong_answers_and_gross_work_are_found(self):
        report = self.selftest(
            *["--threshold", "300", "--plant", "nothing,work:10,wrong_element,nothing_written"],
            *["--keep", "kept"],
        )
        verdicts = [cell["verdict"] for cell in report["cells"]]
        self.assertEqual(verdicts, ["pass", "regression", "incorrect", "incorrect"])
        self.assertEqual({cell["finding"] for cell in report["cells"]}, {"kept"})
        # What scripts/gate_rates counts by.
        for key in ("version", "commit", "dirty", "notes", "pairs", "seconds"):
            self.assertIn(key, report)
        slowed = report["cells"][1]
        for key in ("name", "device", "device_name", "reason"):
            self.assertIn(key, slowed)
        self.assertLessEqual({"ratio", "deviation"}, set(slowed["change"]))
        self.assertGreater(slowed["planted_part"], 3)
        self.assertIn("a second series repeats it", slowed["reason"])
        # The evidence: the first process of each side is whole, the others take times only.
        kept = sorted((self.folder / "kept").glob("*.json"))
        candidates = [path for path in kept if "candidate" in path.name]
        first, second = (self.document(path) for path in candidates[:2])
        self.assertIn("floors", first["cells"][0])
        self.assertNotIn("floors", second["cells"][0])
        self.assertIn("--times-only", second["cells"][0]["referee"]["missing"])
        planted = [cell.get("planted") for cell in first["cells"]]
        self.assertEqual(planted, [None, "work:10", "wrong_element", "nothing_written"])
        self.assertGreater(first["cells"][1]["planted_work"]["slow_down"], 3)
        # The second series measures what was slower, and no more.
        last = self.document(candidates[-1])
        self.assertEqual([cell.get("planted") for cell in last["cells"]], ["work:10"])
        # Nobody takes these times for the variant's own.
        for command in (["compare"], ["export", "--to", "md"], ["gate", "--baseline"]):
            done = self.run_program(*command, str(candidates[0]))
            self.ends_with_one_line(done, USAGE, "selftest", candidates[0].name)

    def noise_words(self, *arguments, **changes):
        """What it says of the noise, of processes that measure as the gate's own unless told."""
        done = self.run_program(
            *["selftest", *CELLS, "--plant", "nothing", "--threshold", "300", "--quiet"],
            *["--processes", "5", "--times-only", *arguments],
            env={**self.environment(), **changes},
            timeout=200,
        )
        self.ends(done, FINE)
        return done.stdout.splitlines()[-1]

    def test_the_noise_is_kept_and_raises_the_gates_threshold(self):
        self.assertIn("; kept for the gate", self.noise_words())
        (path,) = (self.folder / "cache" / "mla-bench").glob("noise-*.json")
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        ((name, entry),) = cells.items()
        self.assertTrue(name.startswith("kv_up/tiled/cpu/"), name)
        self.assertGreaterEqual(entry["deviation"], 0)
        entry["deviation"] = 2.0  # a machine on which nothing can be told
        path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
        done = self.run_program(
            *["gate", "--against", harness.PROGRAM, *CELLS, *QUICK, "--format", "json"], timeout=200
        )
        self.ends(done, FINE)
        (cell,) = harness.parse_document(done.stdout)["cells"]
        self.assertGreater(cell["threshold"], 100)
        self.assertIn("by selftest", cell["reason"])

    def test_a_cache_that_is_no_file(self):
        (self.folder / "cache" / "mla-bench").mkdir(parents=True)
        os.mkfifo(self.folder / "cache" / "mla-bench" / "noise-any.json")
        done = self.run_program(
            *["gate", "--against", harness.PROGRAM, *CELLS, *QUICK, "--threshold", "1000"],
            timeout=100,
        )
        self.ends(done, FINE)

    def test_the_report_as_json_on_stdout(self):
        done = self.run_program(
            *["selftest", *CELLS, *QUICK, "--plant", "nothing", "--threshold", "1000"],
            *["--output", "-"],
            timeout=200,
        )
        self.ends(done, FINE)
        self.assertEqual(harness.parse_document(done.stdout)["schema"], "mla-bench-selftest/1")
        self.assertEqual([name for name in self.files() if "cache" not in name], [])

    def test_noise_that_is_not_kept(self):
        words = self.noise_words("--rounds", "1", "--samples", "5", "--warmup", "0")
        self.assertIn("; not kept for the gate: --rounds, --samples or --warmup are less", words)
        self.assertEqual(list(self.folder.glob("cache/mla-bench/noise-*")), [])
        words = self.noise_words(XDG_CACHE_HOME="/proc/none")
        self.assertIn("; not kept for the gate: neither XDG_CACHE_HOME nor HOME", words)

    def test_text(self):
        done = self.run_program(
            *["selftest", *CELLS, *QUICK, "--threshold", "300", "--output", "r.json"],
            *["--plant", "first_call_only"],
            timeout=200,
        )
        self.ends(done, FINE)
        self.assertRegex(done.stdout, r"\n  work in the first call only +incorrect +1 incorrect")
        report = harness.parse_document((self.folder / "r.json").read_text(encoding="utf-8"))
        self.assertEqual(report["exit_code"], 0)

    def test_bad_input(self):
        for arguments, *parts in (
            (["--plant", "poison"], "--plant", "poison", "nothing_written"),
            (["--plant", "work:0"], "--plant", "work:0"),
            (["--threshold", "0"], "--threshold"),
            (["--processes", "4"], "--processes", "from 5"),
            (["--format", "xml"], "--format", "xml"),
            (["--precision", "fp31"], "fp31"),
            (["--output", "/proc/no/such/r.json"], "/proc/no/such/r.json"),
            (["more"], "more"),
        ):
            self.ends_with_one_line(self.run_program("selftest", *arguments), USAGE, *parts)
        done = self.run_program("run", "--plant", "nothing", "--device", "cpu")
        self.ends_with_one_line(done, USAGE, "--plant", "NUMBER=WHAT")
        self.assertNotIn("--plant", self.run_program("run", "--help").stdout)


class Rates(harness.CliTest):
    def rates(self, *arguments, program=None):
        return subprocess.run(
            [sys.executable, str(RATES), *arguments],
            cwd=self.folder,
            env=self.environment(
                MLA_BENCH_PROGRAM=program or harness.PROGRAM,
                XDG_CACHE_HOME=str(self.folder / "cache"),
            ),
            capture_output=True,
            text=True,
            timeout=250,
        )

    def program(self, commit):
        """Stands in for a selftest of two cells that keeps its promises."""
        path = self.folder / "program"
        path.write_text(
            f"#!{sys.executable}\n"
            + textwrap.dedent(f"""
                import json, sys
                slowed = "nothing" not in sys.argv
                cell = dict(name="a", device="GPU-1", device_name="NVIDIA H200", reason="",
                            finding="kept", verdict="regression" if slowed else "pass",
                            change=dict(ratio=1.05 if slowed else 1, deviation=0.001))
                if slowed:
                    cell["planted_part"] = 0.0502
                print(json.dumps(dict(version="0.1.0", commit="{commit}", dirty=False, notes=[],
                                      pairs=5, seconds=1.5, cells=[cell, cell])))
            """),
            encoding="utf-8",
        )
        path.chmod(0o755)
        return str(path)

    def test_what_cannot_be_counted_or_written_is_no_success(self):
        program = self.program("aaaaaaaaaa")
        (self.folder / "file").touch()
        (self.folder / "folder").mkdir()
        for path in ("file/r.json", "/proc/no/such/r.json", "folder"):
            with self.subTest(path=path):
                done = self.rates("--device", "cpu", "--json", path, program=program)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, rf"\Agate_rates: --json: {path}[^\n]*\n\Z")
        # After the first gate: the folder is gone; a report is not as it was.
        lines = (self.folder / "program").read_text(encoding="utf-8")
        for change, says in (
            ("import shutil; shutil.rmtree('out'); open('out', 'w')\n", "out/r.json"),
            ("cell.pop('finding')\n", "KeyError('finding')"),
        ):
            with self.subTest(says=says):
                last = lines.rindex("print(")
                (self.folder / "program").write_text(lines[:last] + change + lines[last:])
                done = self.rates("--device", "cpu", "--json", "out/r.json", program=program)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(says, done.stderr)
                self.assertNotIn("Traceback", done.stderr)
                (self.folder / "out").is_file() and (self.folder / "out").unlink()

    def test_counts_decisions_and_goes_on(self):
        program = self.program("aaaaaaaaaa")
        words = ["--device", "cuda:0,cuda:1", "--json", "r.json", "--slowed", "3"]
        path = self.folder / "r.json"

        def rates_of(*arguments):
            done = self.rates(*words, *arguments, program=program)
            self.assertEqual(done.returncode, 0, done.stderr)
            document = harness.parse_document(path.read_text(encoding="utf-8"))
            self.assertEqual(document["schema"], "mla-bench-rates/1")
            return {
                (rate["planted"], rate["threshold"]): rate["decisions"]
                for rate in document["rates"]
            }

        first = rates_of("--honest", "4")
        self.assertEqual(set(first), {(p, t) for p in ("nothing", "work") for t in (0.03, 0.01)})
        self.assertTrue(all(first["nothing", t] >= 2 and first["work", t] >= 3 for t in (0.03, 0.01)))
        before = path.read_bytes()
        self.assertEqual(rates_of("--honest", "4", "--resume"), first)
        self.assertEqual(path.read_bytes(), before)
        more = rates_of("--honest", "200", "--resume")
        self.assertGreaterEqual(more["nothing", 0.03], 100)
        self.assertEqual(more["work", 0.03], first["work", 0.03])
        other = self.rates(
            *[*words, "--honest", "900", "--resume"], program=self.program("bbbbbbbbbb")
        )
        self.assertEqual(other.returncode, 2)
        self.assertIn("another mla-bench", other.stderr)

    def test_bad_input(self):
        done = self.rates("--json", "r.json", program="/none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("MLA_BENCH_PROGRAM", done.stderr)
        done = self.rates("--json", "r.json", "--device", "cpu", "--", "--variant", "tild")
        self.assertEqual(done.returncode, 2)
        self.assertIn("tild", done.stderr)
        self.assertEqual(self.files(), [])
        done = self.rates("--json", "none.json", "--resume")
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.json", done.stderr)


if __name__ == "__main__":
    harness.main()
