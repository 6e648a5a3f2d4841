"""What a run prints, where its document goes, and that the variants agree."""

import harness
from harness import BRIEF, TINY


class Run(harness.CliTest):
    def test_default_run(self):
        done = self.run_program(
            "--variant", "tiled", "--device", "cpu", "--warmup", "0", "--rounds", "2"
        )
        self.ends(done, 0)
        self.assertRegex(done.stdout, r"(?m)^  variant +median .*check$")
        self.assertRegex(done.stdout, r"(?m)^  tiled +[0-9.]+ (ns|us|ms) .* ok, all elements( UNTRUSTED: .*)?$")
        [path] = self.files()
        self.assertRegex(
            path, r"\Aresults/local/\d{4}-\d\d-\d\dT\d{6}-([0-9a-f]{1,10}|unknown)\.json\Z"
        )
        self.assertRegex(done.stderr, rf"\Amla-bench: wrote {path}\n(mla-bench: [^\n]+\n)*\Z")
        document = self.document(self.folder / path)
        [cell] = document["cells"]
        self.assertIn(cell["status"], harness.RIGHT)
        self.assertEqual(
            cell["problem"],
            {"batch": 4, "seq": 96, "model_dim": 256, "rank": 48, "kv_heads": 4, "head_dim": 32},
        )
        self.assertEqual(len(cell["rounds"]), 2)
        self.assertLessEqual(cell["summary"]["ci95_low_ns"], cell["summary"]["median_ns"])
        self.assertIsNotNone(document["finished_at"])
        self.assertEqual(document["ended_by_signal"], 0)

    def test_auto_says_what_ran(self):
        done = self.run_program(
            "--variant", "tiled", "--json", "a.json", "--warmup", "0", "--rounds", "1", *TINY
        )
        self.ends(done, 0)
        backend = self.document(self.folder / "a.json")["cells"][0]["backend"]
        warnings = [line for line in done.stderr.splitlines() if "running on the CPU" in line]
        self.assertEqual(len(warnings), 1 if backend == "cpu" else 0, done.stderr)

    def test_advice_raises_what_ended_the_rounds(self):
        wanted = "--variant naive --device cpu --warmup 0 --precision-target 0.000001"
        for options, advice in (
            ("--samples 2", "raise --rounds above 21"),  # the most that are made unasked
            ("--samples 2 --rounds 3", "raise --rounds above 3"),
            ("--time-budget 0.2", "raise --time-budget above 0.2"),
        ):
            done = self.run_program(*wanted.split(), *options.split(), *TINY, "--json", "a.json")
            self.ends(done, 0)
            self.assertIn(advice, done.stderr)

    def test_all_variants(self):
        done = self.run_program(*BRIEF, *TINY, "--json", "a.json")
        self.ends(done, 0)
        named = self.run_program(*BRIEF, *TINY, "--variant", "all", "--dry-run").stdout
        cells = self.document(self.folder / "a.json")["cells"]
        self.assertEqual(
            [cell["id"] for cell in cells], [line.split()[0] for line in named.splitlines()]
        )
        for variant in ("naive", "tiled", "cooperative"):
            self.assertIn(
                variant, [cell["variant"] for cell in cells if cell["status"] in harness.RIGHT]
            )

    def test_document_on_stdout(self):
        done = self.run_program(*BRIEF, *TINY, "--variant", "naive", "--json", "-")
        self.ends(done, 0)
        self.assertIn(self.document(done.stdout)["cells"][0]["status"], harness.RIGHT)
        self.assertIn("  naive ", done.stderr)
        self.assertEqual(self.files(), [])

    def test_quiet(self):
        done = self.run_program(*BRIEF, *TINY, "--variant", "naive", "--quiet", "--json", "a.json")
        self.ends(done, 0)
        self.assertEqual((done.stdout, done.stderr), ("", ""))
        self.document(self.folder / "a.json")
        done = self.run_program(*BRIEF, *TINY, "--variant", "naive", "--quiet", "--json", "-")
        self.ends(done, 0)
        self.document(done.stdout)
        self.assertEqual(done.stderr, "")

    def test_lists_multiply(self):
        done = self.run_program(
            "--dry-run",
            "--device",
            "cpu",
            "--variant",
            "naive,tiled",
            "--seq",
            "96,192",
            "--precision",
            "fp32,bf16",
        )
        self.ends(done, 0)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 8)
        expected = {
            f"{variant}/cpu/B:4/S:{seq}/Dm:256/R:48/H:4/D:32/{precision}/hot"
            for variant in ("naive", "tiled")
            for seq in (96, 192)
            for precision in ("fp32", "bf16")
        }
        self.assertEqual({line.split()[0] for line in lines}, expected)
        self.assertEqual(self.files(), [])

    def test_named_twice_runs_once(self):
        done = self.run_program(
            "--dry-run", "--device", "cpu", "--variant", "naive,naive", "--seq", "8,8"
        )
        self.ends(done, 0)
        self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_cold(self):
        # Bound by memory, so that the copies that it takes to be cold are few and soon read.
        shape = "--batch 1 --seq 1024 --model-dim 2048 --rank 1 --kv-heads 1 --head-dim 1".split()
        done = self.run_program(
            *BRIEF, *shape, "--l2", "both", "--variant", "naive", "--json", "a.json"
        )
        self.ends(done, 0)
        cells = self.document(self.folder / "a.json")["cells"]
        self.assertEqual([cell["l2"] for cell in cells], ["hot", "cold"])

    def test_existing_document_is_replaced(self):
        (self.folder / "a.json").write_text("old")
        (self.folder / "link.json").symlink_to("a.json")
        self.ends(self.run_program(*BRIEF, *TINY, "--variant", "naive", "--json", "link.json"), 0)
        self.assertTrue((self.folder / "link.json").is_symlink())
        self.document(self.folder / "a.json")
        self.assertEqual(self.files(), ["a.json", "link.json"])

    def test_new_folder_and_utf8_path(self):
        path = "Ergebnisse/größe ✓.json"
        done = self.run_program(*BRIEF, *TINY, "--variant", "naive", "--json", path)
        self.ends(done, 0)
        self.assertTrue(done.stderr.startswith(f"mla-bench: wrote {path}\n"), done.stderr)
        self.assertEqual(self.document(self.folder / path)["argv"][-1], path)

    def test_skipped_beside_passed_is_fine(self):
        done = self.run_program(
            *BRIEF,
            *TINY[:2],
            *TINY[4:],
            "--seq",
            "8,100000000000",
            "--variant",
            "tiled",
            "--json",
            "a.json",
        )
        self.ends(done, 0)
        short, long = self.document(self.folder / "a.json")["cells"]
        self.assertIn(short["status"], harness.RIGHT)
        self.assertEqual(long["status"], "skipped")
        self.assertIn("skipped: needs", done.stdout)


class Texts(harness.CliTest):
    def test_list(self):
        done = self.run_program("list", "--device", "cpu")
        self.ends(done, 0)
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"\ADevices\n")
        self.assertRegex(done.stdout, r"(?m)^  cpu  .+, \d+ threads, [0-9.]+ [KMGT]iB$")
        for variant in ("naive", "tiled", "cooperative", "blas"):
            self.assertRegex(done.stdout, rf"(?m)^  {variant}( |$)")
        self.assertEqual(self.files(), [])

    def test_help(self):
        for arguments in (["--help"], ["run", "--help"]):
            done = self.run_program(*arguments)
            self.ends(done, 0)
            self.assertEqual(done.stderr, "")
            for option in ("--variant", "--seq", "--json", "--seed", "--time-budget", "--dry-run"):
                self.assertIn(option, done.stdout)
            self.assertIn("Exit codes", done.stdout)
        done = self.run_program("list", "--help")
        self.ends(done, 0)
        self.assertIn("--device", done.stdout)
        self.assertNotIn("--seq", done.stdout)

    def test_version(self):
        done = self.run_program("--version")
        self.ends(done, 0)
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"\Amla-bench \d+\.\d+\.\d+\n")
        self.assertRegex(done.stdout, r"(?m)^commit ([0-9a-f]+( \(dirty\))?|unknown)$")
        self.assertRegex(done.stdout, r"(?m)^CUDA (none|\S+ [0-9.]+ for .+)$")


class Commands(harness.CliTest):
    def test_command_repeats_the_cell(self):
        self.ends(
            self.run_program(
                *BRIEF,
                *TINY,
                "--inputs",
                "positive",
                "--seed",
                "7",
                "--precision",
                "fp32,bf16",
                "--variant",
                "naive,tiled",
                "--json",
                "a.json",
            ),
            0,
        )
        cells = self.document(self.folder / "a.json")["cells"]
        self.assertEqual(len(cells), 4)
        same = (
            "id",
            "variant",
            "device",
            "threads",
            "precision",
            "l2",
            "problem",
            "inputs",
            "kernels",
            "choice",
        )
        for cell in cells:
            done = self.run_shell(cell["command"] + " --warmup 0 --rounds 1 --json -")
            self.ends(done, 0)
            [again] = self.document(done.stdout)["cells"]
            self.assertEqual({key: again[key] for key in same}, {key: cell[key] for key in same})
            self.assertEqual(again["command"], cell["command"])

    def test_command_of_a_cold_cell(self):
        self.ends(
            self.run_program(
                "--device",
                "cpu",
                "--threads",
                "1",
                "--l2",
                "cold",
                "--seq",
                "100000000000",
                "--variant",
                "tiled",
                "--quiet",
                "--json",
                "a.json",
            ),
            77,
        )
        [cell] = self.document(self.folder / "a.json")["cells"]
        done = self.run_shell(cell["command"] + " --dry-run")
        self.ends(done, 0)
        self.assertEqual(done.stdout.split()[0], cell["id"])

    def test_command_with_a_file_that_the_shell_must_not_split(self):
        name = "it's a file.safetensors"
        self.ends(
            self.run_program(*BRIEF, *TINY, "--variant", "naive", "--save", name, "--quiet"), 0
        )
        self.ends(
            self.run_program(*BRIEF, "--variant", "naive", "--input", name, "--json", "a.json"), 0
        )
        [cell] = self.document(self.folder / "a.json")["cells"]
        self.assertEqual(cell["problem"]["kv_heads"], 2)
        done = self.run_shell(cell["command"] + " --warmup 0 --rounds 1 --json -")
        self.ends(done, 0)
        self.assertEqual(self.document(done.stdout)["cells"][0]["command"], cell["command"])


if __name__ == "__main__":
    harness.main()
