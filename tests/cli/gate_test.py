"""mla-bench gate: on the 20 documents of fresh processes of an H200, changed copies of them, and
this program against itself and against programs that are faster, crash or hang."""

import copy
import json
import os
import random
import signal
import subprocess
import textwrap
import unittest
import xml.etree.ElementTree

import harness

REGRESSION, USAGE, INCORRECT, INCONCLUSIVE, INCOMPARABLE = 1, 2, 3, 4, 5
REPEATS = sorted((harness.ROOT / "results" / "h200" / "repeat").glob("*.json"))
# One round and no warm-up: what is tested is the gate, not the machine.
QUICK = ["--rounds", "1", "--warmup", "0"]
CELLS = ["--variant", "tiled", "--device", "cpu", "--threads", "1", *harness.TINY]


def slowed(document, factor):
    for cell in document["cells"]:
        for measured in cell["rounds"]:
            measured["samples_ns"] = [factor * ns for ns in measured["samples_ns"]]
    return document


class GateCase(harness.CliTest):
    def write(self, name, document):
        text = document if isinstance(document, str) else json.dumps(document)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def gate(self, *arguments, code=0):
        """The JSON report."""
        done = self.run_program("gate", *map(str, arguments), "--format", "json", timeout=200)
        self.ends(done, code)
        report = harness.parse_document(done.stdout)
        self.assertEqual(report["exit_code"], code)
        return report

    def program(self, name, *lines):
        """A shell script that stands in for another mla-bench."""
        path = self.folder / name
        path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def scaled_program(self, name, factor):
        """This program, its times multiplied afterwards."""
        (self.folder / "scale.py").write_text(
            textwrap.dedent("""
                import json, sys
                path = sys.argv[sys.argv.index("--json") + 1]
                with open(path, encoding="utf-8") as file:
                    document = json.load(file)
                for cell in document["cells"]:
                    for measured in cell["rounds"]:
                        measured["samples_ns"] = [float(sys.argv[1]) * ns
                                                  for ns in measured["samples_ns"]]
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(document, file)
            """),
            encoding="utf-8",
        )
        return self.program(
            name,
            f'"{harness.PROGRAM}" "$@" || exit $?',
            f'exec python3 "{self.folder}/scale.py" {factor} "$@"',
        )


class Recorded(GateCase):
    def test_a_against_a_never_alarms_and_every_injected_slow_down_is_found(self):
        chance = random.Random(5)
        decisions = 0
        for trial in range(25):
            chosen = chance.sample(REPEATS, 10)
            base, candidate = chosen[:5], chosen[5:]
            report = self.gate("--baseline", ",".join(map(str, base)), *candidate)
            self.assertEqual([cell["verdict"] for cell in report["cells"]], ["pass", "pass"])
            decisions += len(report["cells"])
            for threshold in (1, 3):
                factor = 1 + (threshold + 2) / 100
                names = [
                    self.write(
                        f"slow{i}.json",
                        slowed(json.loads(path.read_text(encoding="utf-8")), factor),
                    )
                    for i, path in enumerate(candidate)
                ]
                report = self.gate(
                    "--baseline",
                    ",".join(map(str, base)),
                    *names,
                    "--threshold",
                    threshold,
                    code=REGRESSION,
                )
                for cell in report["cells"]:
                    self.assertEqual(cell["verdict"], "regression")
                    self.assertLess(cell["change"]["low"], factor)
                    self.assertGreater(cell["change"]["high"], factor)
        print(f"{decisions} decisions")

    def test_one_threshold_finds_what_another_lets_through(self):
        base = ",".join(map(str, REPEATS[:5]))
        report = self.gate("--baseline", base, *REPEATS[5:10], "--threshold", "1")
        for cell in report["cells"]:
            self.assertLess(cell["change"]["detectable"], 0.02)

    def test_text(self):
        base = ",".join(map(str, REPEATS[:5]))
        done = self.run_program("gate", "--baseline", base, *map(str, REPEATS[5:10]))
        self.ends(done, 0)
        self.assertEqual(done.stderr, "")
        self.assertIn("fp32", done.stdout)
        self.assertRegex(done.stdout, r"\n  pass +cooperative +hot ")
        self.assertIn("2 cells: 2 pass\n", done.stdout)

    def test_a_report_outlives_stdout(self):
        base = ",".join(map(str, REPEATS[:5]))
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = self.run_program(
                *["gate", "--baseline", base, *map(str, REPEATS[5:10]), "--output", "r.json"],
                stdout=full,
            )
        self.ends_with_one_line(done, USAGE, "stdout")
        report = harness.parse_document((self.folder / "r.json").read_text(encoding="utf-8"))
        self.assertEqual(len(report["cells"]), 2)

    def test_stdout_outlives_a_report_that_cannot_be_written(self):
        base = ",".join(map(str, REPEATS[:5]))
        (self.folder / "d").mkdir()
        full = self.program(
            "full",
            "ulimit -f 0",
            f'exec "{harness.PROGRAM}" "$@"',
        )
        done = subprocess.run(
            [full, "gate", "--baseline", base, *map(str, REPEATS[5:10]), "--output", "d/r.json"],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.ends(done, USAGE)
        self.assertRegex(done.stderr, r"\Amla-bench: cannot write 'd/r.json'[^\n]+\n\Z")
        self.assertIn("2 cells: 2 pass", done.stdout)

    def test_lost_accuracy_beside_a_time_that_is_not_trusted(self):
        names = []
        for i, path in enumerate(REPEATS[5:8]):
            document = json.loads(path.read_text(encoding="utf-8"))
            for cell in document["cells"]:
                cell["status"] = "untrusted"
                cell["reason"] = "the SM clock moved"
                for check in ("check", "recheck"):
                    cell[check]["frobenius_error"] *= 100
            names.append(self.write(f"less{i}.json", document))
        base = ",".join(map(str, REPEATS[:5]))
        report = self.gate("--baseline", base, *names, code=REGRESSION)
        for cell in report["cells"]:
            self.assertEqual(cell["verdict"], "regression")
            self.assertIn("less exact", cell["reason"])

    def test_a_file_name_that_is_not_utf8(self):
        name = os.fsdecode(b"bad\xff.json")
        (self.folder / name).write_bytes(REPEATS[0].read_bytes())
        for arguments, code in (
            (["compare", name, str(REPEATS[1]), "--format", "csv"], 0),
            (["compare", name, str(REPEATS[1]), "--format", "md"], 0),
            (["export", name, "--to", "csv"], 0),
            (["gate", "--baseline", str(REPEATS[1]), name, "--format", "md"], INCOMPARABLE),
        ):
            with self.subTest(arguments=arguments):
                with open(self.folder / "out", "wb") as out:
                    self.ends(self.run_program(*arguments, stdout=out), code)
                text = (self.folder / "out").read_bytes().decode("utf-8")
                if "md" not in arguments or "gate" in arguments:
                    self.assertIn("xff.json", text)

    def test_reports_are_written_before_a_bad_end(self):
        base = ",".join(map(str, REPEATS[:5]))
        slow = [
            self.write(f"s{i}.json", slowed(json.loads(p.read_text(encoding="utf-8")), 1.1))
            for i, p in enumerate(REPEATS[5:8])
        ]
        for name in ("r.md", "r.xml", "r.json", "r.txt"):
            done = self.run_program("gate", "--baseline", base, *slow, "--output", name)
            self.ends(done, REGRESSION)
            self.assertIn("2 regression", done.stdout)
            self.assertIn("regression", (self.folder / name).read_text(encoding="utf-8"))
        suites = xml.etree.ElementTree.parse(self.folder / "r.xml").getroot()
        self.assertEqual(suites.tag, "testsuites")
        self.assertEqual(suites.get("failures"), "2")
        cases = suites.findall("testsuite/testcase")
        self.assertEqual(len(cases), 2)
        self.assertEqual([case.find("failure").get("type") for case in cases], ["regression"] * 2)
        self.assertIn("| regression | cooperative |", (self.folder / "r.md").read_text())

    def test_bad_documents(self):
        whole = REPEATS[0].read_text(encoding="utf-8")
        good = json.loads(whole)
        twice = copy.deepcopy(good)
        twice["cells"].append(copy.deepcopy(twice["cells"][0]))
        for name, document, part in (
            ("cut.json", whole[:5000], "cut.json"),
            ("foreign.json", '{"benchmarks": []}', "schema"),
            ("old.json", {**good, "schema": "mla-bench/0"}, "mla-bench/0"),
            ("twice.json", twice, "twice"),
            ("negative.json", slowed(copy.deepcopy(good), -1), "negative.json"),
            ("nan.json", whole.replace('"samples_ns": [', '"samples_ns": [NaN,', 1), "nan.json"),
        ):
            self.write(name, document)
            for arguments in ((name, REPEATS[1]), (REPEATS[1], name)):
                done = self.run_program("gate", "--baseline", *map(str, arguments))
                self.ends_with_one_line(done, USAGE, part)
        done = self.run_program("gate", "--baseline", "none.json")
        self.ends_with_one_line(done, USAGE, "none.json")

    def test_what_cannot_be_judged_is_no_pass(self):
        good = json.loads(REPEATS[0].read_text(encoding="utf-8"))
        candidates = list(map(str, REPEATS[5:10]))
        # One process on each side; one round.
        report = self.gate("--baseline", REPEATS[0], REPEATS[1], code=INCOMPARABLE)
        self.assertIn("process on each side", report["cells"][0]["reason"])
        one = copy.deepcopy(good)
        for cell in one["cells"]:
            del cell["rounds"][1:]
        report = self.gate("--baseline", self.write("1.json", one), *candidates, code=INCOMPARABLE)
        self.assertIn("one round", report["cells"][0]["reason"])
        # Zero matches.
        other = copy.deepcopy(good)
        for cell in other["cells"]:
            cell["variant"] = "naive"
        report = self.gate("--baseline", self.write("o.json", other), *candidates, code=INCOMPARABLE)
        self.assertEqual(
            [cell["verdict"] for cell in report["cells"]], ["missing", "missing", "new", "new"]
        )
        # Another driver.
        other = copy.deepcopy(good)
        other["devices"][0]["setup"]["driver"] = "1.2.3"
        self.write("d.json", other)
        report = self.gate("--baseline", "d.json", *candidates, code=INCOMPARABLE)
        self.assertIn("instead of 1.2.3", report["cells"][0]["reason"])
        report = self.gate("--baseline", "d.json", *candidates, "--allow-environment")
        self.assertIn("allowed: driver", report["cells"][0]["reason"])
        # A wrong output.
        wrong = json.loads(REPEATS[1].read_text(encoding="utf-8"))
        wrong["cells"][0].update(status="incorrect", reason="k[0] is 1")
        report = self.gate(
            "--baseline", REPEATS[0], *candidates, self.write("w.json", wrong), code=INCORRECT
        )
        self.assertEqual(report["cells"][0]["verdict"], "incorrect")


    def test_a_copy_of_a_run_is_not_a_second_run(self):
        for name in ("a.json", "b.json"):
            self.write(name, REPEATS[0].read_text(encoding="utf-8"))
        (self.folder / "link.json").symlink_to("a.json")
        other = str(REPEATS[1])
        # A merged baseline, and a run that is in it.
        whole = json.loads(REPEATS[0].read_text(encoding="utf-8"))
        more = json.loads(REPEATS[2].read_text(encoding="utf-8"))
        for cell, added in zip(whole["cells"], more["cells"], strict=True):
            cell["rounds"] += [{**measured, "process": 1} for measured in added["rounds"]]
        self.write("merged.json", whole)
        for arguments in (
            ["gate", "--baseline", "a.json", "./a.json"],
            ["gate", "--baseline", "a.json,./a.json", other],
            ["gate", "--baseline", other, "a.json", "b.json"],
            ["gate", "--baseline", "a.json", "link.json"],
            ["gate", "--baseline", "merged.json", other, "a.json"],
            ["compare", "a.json", "./a.json"],
            ["compare", "a.json", "b.json"],
        ):
            with self.subTest(arguments=arguments):
                done = self.run_program(*arguments)
                self.ends_with_one_line(done, USAGE, "holds the measurements of", "a.json")


class Options(GateCase):
    def test_what_does_not_go_together(self):
        base = str(REPEATS[0])
        for arguments, *parts in (
            ([], "--baseline", "--against"),
            (["--baseline", base, "--against", "x"], "one of them"),
            (["--against", "x", base], "leave out"),
            (["--baseline", base, "--variant", "tiled"], "--variant", "--against"),
            (["--baseline", base, base], "is named twice"),
            (["--baseline", base, "--threshold", "0"], "--threshold", "0.1"),
            (["--baseline", base, "--threshold", "nan"], "--threshold"),
            (["--baseline", base, "--output", "report.pdf"], "--output", ".xml"),
            (["--against", "x", "--update"], "--update"),
            (["--baseline", base, str(REPEATS[1]), "--update"], "--update"),
            (["--against", "x", "--processes", "4"], "--processes", "from 5"),
            (["--against", "x", "--precision", "fp31"], "--precision", "fp31"),
            (["--against", "./none", *CELLS], "./none"),
            (["--against", ".", *CELLS], "'.'"),
        ):
            self.ends_with_one_line(self.run_program("gate", *arguments), USAGE, *parts)


class Measured(GateCase):
    def test_a_program_against_itself(self):
        # Other work shares these cores: a threshold that no such noise reaches.
        report = self.gate(
            "--against", harness.PROGRAM, *CELLS, *QUICK, "--threshold", "300", "--keep", "kept"
        )
        self.assertEqual([cell["verdict"] for cell in report["cells"]], ["pass"])
        self.assertTrue(report["rules"]["paired"])
        kept = self.files()
        self.assertGreaterEqual(len(kept), 10)
        # Old new, new old.
        order = [name.split("-")[1] for name in kept[:4]]
        self.assertEqual(
            order, ["baseline.json", "candidate.json", "candidate.json", "baseline.json"]
        )
        for name in kept:
            self.document(self.folder / name)

    def test_a_folder_or_report_that_will_not_do_is_told_before_anything_is_measured(self):
        program = self.program("old", 'echo "started" >started; exit 1')
        (self.folder / "file").touch()
        (self.folder / "kept").mkdir()
        (self.folder / "kept" / "042-candidate.json").touch()
        before = self.files()
        for words, *names in (
            (["--output", "file/r.json"], "file/r.json"),
            (["--output", "/proc/no/such/r.md"], "/proc/no/such/r.md"),
            (["--keep", "kept"], "--keep 'kept'", "empty folder"),
            (["--keep", "file"], "--keep 'file'"),
        ):
            with self.subTest(words=words):
                done = self.run_program("gate", "--against", program, *CELLS, *QUICK, *words)
                self.ends_with_one_line(done, USAGE, *names)
                self.assertEqual(self.files(), before)

    def test_after_a_look_only_what_is_open_is_measured_again(self):
        (self.folder / "noise.py").write_text(
            textwrap.dedent("""
                import json, sys
                path = sys.argv[sys.argv.index("--json") + 1]
                with open(path, encoding="utf-8") as file:
                    document = json.load(file)
                for cell in document["cells"]:
                    if cell["variant"] == "cooperative":
                        turn = int(path.rsplit("/", 1)[-1].split("-")[0]) // 4
                        for measured in cell["rounds"]:
                            measured["samples_ns"] = [
                                (1000 if turn % 2 else 0.001) * ns for ns in measured["samples_ns"]
                            ]
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(document, file)
            """),
            encoding="utf-8",
        )
        noisy = self.program(
            "noisy",
            f'"{harness.PROGRAM}" "$@" || exit $?',
            f'exec python3 "{self.folder}/noise.py" "$@"',
        )
        report = self.gate(
            *["--against", noisy, *CELLS[2:], "--variant", "tiled,cooperative", *QUICK],
            *["--threshold", "300", "--processes", "7", "--keep", "kept"],
        )
        verdicts = {cell["variant"]: cell["verdict"] for cell in report["cells"]}
        self.assertEqual(verdicts, {"tiled": "pass", "cooperative": "inconclusive"})
        pairs = {cell["variant"]: cell["candidate_processes"] for cell in report["cells"]}
        self.assertEqual(pairs, {"tiled": 5, "cooperative": 7})
        kept = [
            harness.parse_document((self.folder / name).read_text(encoding="utf-8"))
            for name in self.files()
            if name.startswith("kept/")
        ]
        self.assertEqual([len(document["cells"]) for document in kept], [2] * 10 + [1] * 4)
        # The first process of each side is whole.
        whole = ["floors" in document["cells"][0] for document in kept]
        self.assertEqual(whole, [True] * 2 + [False] * 12)

    def test_a_program_from_before_times_only_takes_part(self):
        old = self.program(
            "old",
            'case " $* " in *" --times-only "*) echo "unknown option" >&2; exit 2;; esac',
            f'exec "{harness.PROGRAM}" "$@"',
        )
        report = self.gate("--against", old, *CELLS, *QUICK, "--threshold", "300")
        self.assertEqual([cell["verdict"] for cell in report["cells"]], ["pass"])

    def test_a_faster_program_of_before_is_a_regression_of_now(self):
        old = self.scaled_program("old", 0.05)
        report = self.gate("--against", old, *CELLS, *QUICK, "--threshold", "50", code=REGRESSION)
        (cell,) = report["cells"]
        self.assertGreater(cell["change"]["low"], 1)
        self.assertIn("a second series repeats it", cell["reason"])
        slow = self.scaled_program("slow", 20)
        report = self.gate("--against", slow, *CELLS, *QUICK, "--threshold", "50")
        self.assertEqual(report["cells"][0]["verdict"], "improvement")

    def test_programs_that_crash_or_hang(self):
        crash = self.program("crash", "kill -SEGV $$")
        report = self.run_program("gate", "--against", crash, *CELLS, "--output", "r.json")
        self.ends(report, INCOMPARABLE)
        self.assertIn("signal 11", report.stderr)
        self.assertIn("signal 11", (self.folder / "r.json").read_text(encoding="utf-8"))
        # One that dies when there is evidence already: the report says what the process ends with.
        flaky = self.program(
            "flaky",
            f'echo >>"{self.folder}/starts"',
            f'test "$(wc -l <"{self.folder}/starts")" -lt 3 || kill -SEGV $$',
            f'exec "{harness.PROGRAM}" "$@"',
        )
        report = self.gate("--against", flaky, *CELLS, *QUICK, code=INCOMPARABLE)
        self.assertIn("signal 11", report["notes"][0])
        hang = self.program("hang", "sleep 1000")
        done = self.run_program("gate", "--against", hang, *CELLS, "--timeout", "1")
        self.ends(done, INCOMPARABLE)
        self.assertIn("--timeout", done.stderr)
        silent = self.program("silent", "exit 0")
        done = self.run_program("gate", "--against", silent, *CELLS)
        self.ends(done, INCOMPARABLE)
        self.assertIn("ended with code 0; it left no document", done.stderr)
        broken = self.program("broken", 'for last; do :; done; echo "{" > "$last"')
        done = self.run_program("gate", "--against", broken, *CELLS)
        self.ends(done, INCOMPARABLE)
        self.assertIn("cannot be read", done.stderr)
        done = self.run_program(
            "gate", "--against", harness.PROGRAM, *CELLS, "--variant", "tild"
        )
        self.ends(done, USAGE)

    def test_a_signal_ends_it_and_what_it_started(self):
        pids = self.folder / "pids"
        hang = self.program("hang", f'echo $$ > "{pids}"', "exec sleep 1000")
        child = self.start("gate", "--against", hang, *CELLS)
        while not pids.exists() or not pids.read_text():
            self.assertIsNone(child.poll())
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(timeout=30), 128 + signal.SIGTERM)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(pids.read_text()), 0)

    def test_a_baseline_is_made_and_kept(self):
        made = self.run_program("run", *CELLS, "--rounds", "2", "--json", "base.json")
        self.ends(made, 0)
        lax = ["--threshold", "1000", *QUICK]
        for _ in range(5):  # a busy machine may leave it inconclusive, which is as it should be
            done = self.run_program("gate", "--baseline", "base.json", "--update", *lax)
            if done.returncode != INCONCLUSIVE:
                break
        self.ends(done, 0)
        self.assertIn("wrote the baseline base.json from 5 processes", done.stderr)
        document = self.document(self.folder / "base.json")
        self.assertEqual(document["argv"][:2], ["mla-bench", "gate"])
        self.assertEqual(
            [measured.get("process", 0) for measured in document["cells"][0]["rounds"]],
            [0, 1, 2, 3, 4],
        )
        # It is a baseline, and a document as any other.
        report = self.gate("--baseline", "base.json", *lax, "--processes", "2")
        self.assertEqual(report["cells"][0]["baseline_processes"], 5)
        self.ends(self.run_program("export", "base.json", "--to", "md"), 0)
        # What is not well does not become one.
        fast = slowed(copy.deepcopy(document), 1e-4)
        self.write("fast.json", fast)
        before = (self.folder / "fast.json").read_bytes()
        done = self.run_program("gate", "--baseline", "fast.json", "--update", *lax)
        self.ends(done, REGRESSION)
        self.assertIn("stays as it is", done.stderr)
        self.assertEqual((self.folder / "fast.json").read_bytes(), before)

    def test_an_update_that_writes_nothing_does_not_end_with_0(self):
        made = self.run_program("run", *CELLS, "--rounds", "2", "--json", "base.json")
        self.ends(made, 0)
        # Rounds that lie far apart, as two processes: noise hides whatever the candidate is.
        document = json.loads((self.folder / "base.json").read_text(encoding="utf-8"))
        first, second = document["cells"][0]["rounds"]
        second["process"] = 1
        second["samples_ns"] = [1e6 * ns for ns in second["samples_ns"]]
        self.write("base.json", document)
        before = (self.folder / "base.json").read_bytes()
        words = ["gate", "--baseline", "base.json", *QUICK, "--processes", "2", "--output", "r.json"]
        self.ends(self.run_program(*words), 0)
        done = self.run_program(*words, "--update")
        self.ends(done, INCONCLUSIVE)
        self.assertIn("stays as it is", done.stderr)
        report = harness.parse_document((self.folder / "r.json").read_text(encoding="utf-8"))
        self.assertEqual(report["exit_code"], INCONCLUSIVE)
        self.assertEqual((self.folder / "base.json").read_bytes(), before)

    def test_a_regression_from_another_machine_is_confirmed_too(self):
        made = self.run_program("run", *CELLS, "--rounds", "2", "--json", "base.json")
        self.ends(made, 0)
        document = slowed(self.document(self.folder / "base.json"), 0.01)
        for cell in document["cells"]:
            cell["device"] = "Another CPU"
        for device in document["devices"]:
            if device["backend"] == "cpu":
                device["uuid"] = device["name"] = "Another CPU"
        self.write("base.json", document)
        report = self.gate(
            *["--baseline", "base.json", *QUICK, "--processes", "4", "--threshold", "100"],
            "--allow-environment",
            code=REGRESSION,
        )
        [cell] = report["cells"]
        self.assertIn("a second series repeats it", cell["reason"])

    def test_a_process_of_a_baseline_is_no_further_one(self):
        made = self.run_program("run", *CELLS, "--rounds", "2", "--json", "base.json")
        self.ends(made, 0)
        done = self.run_program(
            *["gate", "--baseline", "base.json", *QUICK, "--processes", "5", "--threshold", "1000"],
            *["--update", "--keep", "kept"],
        )
        self.ends(done, 0)
        self.document(self.folder / "base.json")
        for number in (1, 2, 5):
            again = f"kept/{number:03}-candidate.json"
            done = self.run_program("gate", "--baseline", "base.json", again)
            self.ends_with_one_line(done, USAGE, again, "leave one of them out")
            done = self.run_program("compare", "base.json", again)
            self.ends_with_one_line(done, USAGE, again, "leave one of them out")

    def test_nor_is_one_of_several_runs_of_a_process(self):
        shapes = "--batch 1 --seq 8 --model-dim 16 --rank 4,5 --kv-heads 2 --head-dim 8".split()
        made = self.run_program(
            *["run", "--variant", "tiled,cooperative", *shapes, *harness.COLD_START],
            *["--rounds", "2", "--json", "base.json"],
        )
        self.ends(made, 0)
        document = self.document(self.folder / "base.json")
        del document["cells"][0]  # no product any more: two runs a process
        self.write("base.json", document)
        done = self.run_program(
            *["gate", "--baseline", "base.json", *QUICK, "--processes", "5", "--threshold", "1000"],
            *["--update", "--keep", "kept"],
            timeout=100,
        )
        self.ends(done, 0)
        starts = self.document(self.folder / "base.json")["merged_from"]
        kept = sorted((self.folder / "kept").iterdir())
        self.assertEqual([self.document(path)["started_at"] for path in kept], starts)
        self.assertEqual(len(starts), 10)
        done = self.run_program("compare", "base.json", str(kept[-1]))
        self.ends_with_one_line(done, USAGE, "leave one of them out")

    def test_the_cells_of_the_baseline_are_run(self):
        shapes = "--batch 1 --seq 8 --model-dim 16 --rank 4,5 --kv-heads 2 --head-dim 8".split()
        made = self.run_program(
            *["run", "--variant", "tiled,cooperative", "--l2", "both", *shapes],
            *[*harness.COLD_START, "--rounds", "2", "--json", "base.json"],
        )
        self.ends(made, 0)
        document = self.document(self.folder / "base.json")
        del document["cells"][3]  # no product any more
        document["cells"][0]["variant"] = "bygone"
        self.write("base.json", document)
        done = self.run_program(
            *["gate", "--baseline", "base.json", *QUICK, "--processes", "2", "--no-confirm"],
            *["--threshold", "1000", "--output", "r.json"],
            timeout=200,
        )
        report = harness.parse_document((self.folder / "r.json").read_text(encoding="utf-8"))
        self.ends(done, INCOMPARABLE)
        verdicts = [cell["verdict"] for cell in report["cells"]]
        self.assertEqual(len(verdicts), 7)
        self.assertEqual(verdicts[0], "missing")
        self.assertNotIn("missing", verdicts[1:])
        self.assertNotIn("new", verdicts)


if __name__ == "__main__":
    harness.main()
