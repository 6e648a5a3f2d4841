"""mla-bench compare, on the committed documents of an H200 and on changed copies of them."""

import copy
import csv
import io
import json
import math
import os
import re
import shlex
import statistics
import subprocess
import textwrap
import unittest

import harness

USAGE = 2
INCOMPARABLE = 5
H200 = harness.ROOT / "results" / "h200"
HEADLINE = H200 / "2026-11-29T183726-fe9e9e3b95.json"
REPEATS = sorted((H200 / "repeat").glob("*.json"))
OTHER_SHAPE = H200 / "2026-11-29T183837-fe9e9e3b95.json"

# Student's t, 97.5 %, 4 degrees of freedom: the headline's cells have five rounds.
T4 = 2.7764


def headline():
    return json.loads(HEADLINE.read_text(encoding="utf-8"))


def document_uuid():
    return headline()["cells"][4]["device"]


def medians(cell):
    return [statistics.median(measured["samples_ns"]) for measured in cell["rounds"]]


def slower(document, variant, factor):
    """The times of one variant, multiplied."""
    for cell in document["cells"]:
        if cell["variant"] == variant:
            for measured in cell["rounds"]:
                measured["samples_ns"] = [factor * ns for ns in measured["samples_ns"]]


def on_device(document, uuid, name):
    for device in document["devices"]:
        if device["backend"] == "cuda":
            device.update(uuid=uuid, name=name)
    for cell in document["cells"]:
        cell["device"] = uuid


class CompareCase(harness.CliTest):
    def write(self, name, document):
        text = document if isinstance(document, str) else json.dumps(document)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def compared(self, *arguments, code=0):
        done = self.run_program("compare", *map(str, arguments), "--format", "json")
        self.ends(done, code)
        return harness.parse_document(done.stdout)


class OneDocument(CompareCase):
    def test_speeds_and_intervals_are_those_of_the_rounds(self):
        compared = self.compared(HEADLINE, "--reference", "tiled")
        cells = {harness.id_of(cell): cell for cell in headline()["cells"]}
        self.assertEqual(len(compared["cells"]), len(cells))
        for cell in compared["cells"]:
            reference = compared["cells"][cell["reference"]]
            self.assertEqual(reference["variant"], "tiled")
            self.assertEqual(reference["id"], cell["id"].replace(cell["variant"], "tiled", 1))
            logs = [
                math.log(a / b)
                for a, b in zip(
                    medians(cells[reference["id"]]), medians(cells[cell["id"]]), strict=True
                )
            ]
            mean = statistics.mean(logs)
            half = T4 * statistics.stdev(logs) / math.sqrt(len(logs))
            speed = cell["speed"]
            self.assertTrue(speed["paired"])
            self.assertAlmostEqual(speed["estimate"], math.exp(mean), delta=1e-9 * math.exp(mean))
            for key, log in (("ci95_low", mean - half), ("ci95_high", mean + half)):
                self.assertAlmostEqual(speed[key], math.exp(log), delta=1e-4 * math.exp(log))

    def test_text(self):
        done = self.run_program("compare", str(HEADLINE))
        self.ends(done, 0)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertIn("NVIDIA H200", lines[0])
        self.assertIn("speed against naive", lines[1])
        self.assertIn("    cooperative is 1.375x [1.370, 1.379] faster than tiled", lines)
        self.assertTrue(all(len(line) <= 110 for line in lines), lines)

    def test_layout(self):
        down = self.run_program(
            "compare", str(HEADLINE), "--rows", "variant", "--columns", "precision"
        )
        self.ends(down, 0)
        # The axis in neither list makes two tables.
        for heading in ("\nhot cache\n", "\ncold cache\n"):
            self.assertIn(heading, down.stdout)
        across = self.run_program("compare", str(HEADLINE), "--columns", "variant,precision,l2")
        self.ends(across, 0)
        self.assertIn("naive, fp32, hot cache", across.stdout)

    def test_markdown(self):
        done = self.run_program("compare", str(HEADLINE), "--format", "md")
        self.ends(done, 0)
        tables = [line for line in done.stdout.splitlines() if line.startswith("|")]
        self.assertEqual(len(tables), 2 + 6)
        self.assertEqual({line.count("|") for line in tables}, {6})

    def test_csv(self):
        done = self.run_program("compare", str(HEADLINE), "--format", "csv", "--reference", "naive")
        self.ends(done, 0)
        rows = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
        self.assertEqual(len(rows), 18)
        for row, cell in zip(rows, headline()["cells"], strict=True):
            self.assertEqual(row["variant"], cell["variant"])
            self.assertEqual(float(row["median_ns"]), cell["summary"]["median_ns"])
            self.assertEqual(row["device"], cell["device"])

    def test_one_round_has_no_interval(self):
        document = headline()
        for cell in document["cells"]:
            del cell["rounds"][1:]
        compared = self.compared(self.write("a.json", document))
        for cell in compared["cells"]:
            self.assertIsNone(cell["ci95_low_ns"])
            self.assertIsNone(cell["speed"]["ci95_low"])
        text = self.run_program("compare", "a.json").stdout
        self.assertIn("by a single round, without an interval", text)


class SeveralDocuments(CompareCase):
    def test_the_same_cells_are_columns_told_apart_by_date(self):
        done = self.run_program("compare", str(REPEATS[0]), str(REPEATS[1]))
        self.ends(done, 0)
        for path in REPEATS[:2]:
            document = json.loads(path.read_text(encoding="utf-8"))
            date = document["started_at"].replace("T", " ").rstrip("Z")
            self.assertIn(f"{date} {document['tool']['commit'][:10]}", done.stdout)
        self.assertIn("not the shift from run to run", done.stdout)
        compared = self.compared(REPEATS[0], REPEATS[1])
        self.assertEqual(compared["reference"], {"kind": "file", "name": str(REPEATS[0])})
        self.assertFalse(compared["cells"][2]["speed"]["paired"])

    def test_gpus_and_a_ranking_flip(self):
        other = headline()
        on_device(other, "GPU-11111111-0000", "NVIDIA L4")
        slower(other, "cooperative", 10)
        self.write("l4.json", other)
        compared = self.compared(HEADLINE, "l4.json")
        self.assertEqual([d["label"] for d in compared["devices"]], ["NVIDIA H200", "NVIDIA L4"])
        flips = {
            tuple(compared["cells"][flip[side][which]]["variant"] for which in ("faster", "slower"))
            for flip in compared["ranking_flips"]
            for side in ("here", "there")
        }
        self.assertEqual(flips, {("cooperative", "tiled"), ("tiled", "cooperative")})
        self.assertEqual(len(compared["ranking_flips"]), 6)
        text = self.run_program("compare", str(HEADLINE), "l4.json").stdout
        self.assertIn("Ranking flips between devices", text)
        # No flip, none told.
        self.assertEqual(self.compared(HEADLINE)["ranking_flips"], [])

    def test_devices_go_by_uuid_not_by_index_or_name(self):
        other = headline()
        on_device(other, "GPU-22222222-0000", "NVIDIA H200")
        compared = self.compared(HEADLINE, self.write("b.json", other))
        self.assertEqual(
            [d["label"] for d in compared["devices"]],
            ["NVIDIA H200 (GPU-6750905a)", "NVIDIA H200 (GPU-22222222)"],
        )
        self.ends_with_one_line(
            self.run_program("compare", str(HEADLINE), "b.json", "--reference", "NVIDIA H200"),
            USAGE,
            "--reference",
            "GPU-22222222-0000",
        )
        told = self.compared(HEADLINE, "b.json", "--reference", "GPU-22222222-0000")
        for cell in told["cells"]:
            self.assertEqual(told["cells"][cell["reference"]]["device"], 1)

    def test_other_work_is_said_and_not_mixed(self):
        done = self.run_program("compare", str(HEADLINE), str(OTHER_SHAPE))
        self.ends(done, INCOMPARABLE)
        self.assertIn("not comparable with the other documents: other problem", done.stdout)
        document = headline()
        for cell in document["cells"]:
            cell["precision"] = "tf32" if cell["precision"] == "fp32" else cell["precision"]
        document["cells"] = [c for c in document["cells"] if c["precision"] == "tf32"]
        done = self.run_program("compare", str(HEADLINE), self.write("tf32.json", document))
        self.ends(done, INCOMPARABLE)
        self.assertIn("other precision", done.stdout)

    def test_wrong_and_untrusted_times_are_not_shown(self):
        document = headline()
        document["cells"][1].update(status="incorrect", reason="element k[0] is 1, not 2")
        document["cells"][2].update(status="untrusted", reason="faster than memory allows")
        name = self.write("a.json", document)
        compared = self.compared(name)
        for cell in compared["cells"][1:3]:
            self.assertNotIn("median_ns", cell)
            self.assertNotIn("speed", cell)
        told = {i for finding in compared["findings"] for i in (finding["faster"], finding["slower"])}
        self.assertFalse({1, 2} & told)
        text = self.run_program("compare", name).stdout
        self.assertIn("not compared: incorrect: element k[0] is 1, not 2", text)
        self.assertIn("not compared: untrusted: faster than memory allows", text)
        self.ends(self.run_program("compare", name, "--format", "csv"), 0)
        self.assertIn("untrusted", self.run_program("compare", name, "--format", "csv").stderr)

    def test_nothing_to_compare(self):
        document = headline()
        del document["cells"][1:]
        self.compared(self.write("a.json", document), code=INCOMPARABLE)


class BadInput(CompareCase):
    def refused(self, name, text, *parts):
        self.write(name, text)
        with self.subTest(name=name):
            self.ends_with_one_line(
                self.run_program("compare", name), USAGE, f"'{name}'", *parts
            )

    def test_files(self):
        for name in ("missing.json", "."):
            self.ends_with_one_line(self.run_program("compare", name), USAGE, f"'{name}'")
        self.ends_with_one_line(self.run_program("compare", "/dev/zero"), USAGE, "larger than")
        self.ends_with_one_line(self.run_program("compare"), USAGE, "FILE...")
        self.ends_with_one_line(
            self.run_program("compare", str(HEADLINE), str(HEADLINE)), USAGE, "twice"
        )

    def test_texts(self):
        whole = HEADLINE.read_text(encoding="utf-8")
        for size in (0, 1, 100, len(whole) // 3, len(whole) // 2, len(whole) - 3):
            self.refused(f"cut{size}.json", whole[:size])
        self.refused("foreign.json", '{"benchmarks": []}', "schema")
        self.refused("list.json", "[1, 2]", "schema")
        self.refused("older.json", whole.replace("mla-bench/1", "mla-bench/0"), "mla-bench/0")
        self.refused("deep.json", '{"a":' + "[" * 100000 + "]" * 100000 + "}", "nested deeper")
        self.refused("nan.json", whole.replace('"samples_ns": [', '"samples_ns": [NaN, ', 1), "byte")
        self.refused("huge.json", whole.replace('"samples_ns": [', '"samples_ns": [1e999, ', 1))
        self.refused("escape.json", whole.replace("mla-bench/1", "\\u001b[31m"), "\\x1b")

    def test_values(self):
        def changed(name, change, *parts):
            document = headline()
            change(document["cells"][4])
            self.refused(name, document, "cells[4]", *parts)

        changed("minus.json", lambda c: c["rounds"][2]["samples_ns"].append(-5.0), "round 3", "-5")
        changed("zero.json", lambda c: c["rounds"][0]["samples_ns"].append(0), "positive")
        changed("empty.json", lambda c: c.update(rounds=[]), "without a time")
        changed("variant.json", lambda c: c.update(variant="a/b"), "'a/b'")
        changed("status.json", lambda c: c.update(status="fine"), "'fine'")
        changed("size.json", lambda c: c["problem"].update(seq=0), "size")
        changed("device.json", lambda c: c.update(device="GPU-none"), "GPU-none")
        for uuids in (["GPU-none"], [document_uuid()]):
            changed(
                "company.json", lambda c: c.update(concurrent_with=uuids), "concurrent_with", *uuids
            )
        document = headline()
        document["cells"].append(copy.deepcopy(document["cells"][4]))
        self.refused("twice.json", document, "twice", harness.id_of(document["cells"][4]))
        document = headline()
        document["cells"] = []
        self.refused("none.json", document, "no cells")
        document = headline()
        document["started_at"] = "yesterday"
        self.refused("time.json", document, "yesterday")

    def test_options(self):
        for arguments, parts in (
            (["--reference", "tild"], ["--reference", "tiled"]),
            (["--rows", "colour"], ["--rows", "variant"]),
            (["--rows", "l2", "--columns", "l2"], ["--columns", "l2"]),
            (["--format", "xml"], ["--format", "json"]),
            (["--format", "md,csv"], ["--format"]),
            (["--seq", "5"], ["'--seq'"]),
        ):
            with self.subTest(arguments=arguments):
                self.ends_with_one_line(
                    self.run_program("compare", str(HEADLINE), *arguments), USAGE, *parts
                )

    def test_a_strangers_text_does_not_drive_the_reader(self):
        document = headline()
        for device in document["devices"]:
            device["name"] = "=cmd|'/c calc'!A1 \x1b[31m | <b> `x`"
        name = self.write("a.json", document)
        for form in ("text", "md", "csv", "json"):
            done = self.run_program("compare", name, "--format", form)
            self.ends(done, 0)
            self.assertNotIn("\x1b", done.stdout + done.stderr)
        row = next(
            csv.DictReader(
                io.StringIO(self.run_program("compare", name, "--format", "csv").stdout, newline="")
            )
        )
        self.assertTrue(row["device_name"].startswith("'=cmd"))
        markdown = self.run_program("compare", name, "--format", "md").stdout
        self.assertNotIn("<b>", markdown)
        self.assertIn("\\|", markdown)


class Readme(CompareCase):
    def test_its_examples_are_what_the_program_says(self):
        readme = (harness.ROOT / "README.md").read_text(encoding="utf-8")
        examples = re.findall(r"^    \$ mla-bench (.*)\n((?:(?:    .*)?\n)+?)(?=\S)", readme, re.MULTILINE)
        self.assertGreaterEqual(len(examples), 2)
        for command, shown in examples:
            with self.subTest(command=command):
                done = subprocess.run(
                    [harness.PROGRAM, *shlex.split(command)],
                    cwd=harness.ROOT,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.ends(done, 0)
                self.assertEqual(textwrap.dedent(shown).strip("\n"), done.stdout.strip("\n"))


class Size(CompareCase):
    """A hundred documents of a hundred cells, 9 rounds of 31 samples: 377 MB of JSON."""

    def test_a_hundred_documents(self):
        document = headline()
        base = next(cell for cell in document["cells"] if cell["variant"] == "tiled")
        base["rounds"] = [copy.deepcopy(base["rounds"][i % 5]) for i in range(9)]
        cells = []
        for i in range(100):
            cell = copy.deepcopy(base)
            cell["variant"] = "variant_" + "abcdefghijklmnopqrst"[i % 20]
            cell["problem"]["seq"] = 96 * (1 + i // 20)
            cells.append(json.dumps(cell, indent=1))
        document["cells"] = []
        frame = json.dumps(document, indent=1)
        body = ",\n".join(cells)
        names = []
        for i in range(100):
            text = frame.replace('"cells": []', '"cells": [\n' + body + "]").replace(
                document["started_at"], f"2026-11-29T{i // 60:02d}:{i % 60:02d}:00Z"
            )
            names.append(self.write(f"{i:03}.json", text))
        with open(self.folder / "out", "wb") as out:
            child = self.start("compare", *names, stdout=out)
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        seconds = usage.ru_utime + usage.ru_stime
        print(f"{seconds:.2f} s of CPU, {usage.ru_maxrss / 1024:.0f} MB")
        # Sanitizers have time and memory of their own.
        with open(harness.PROGRAM, "rb") as program:
            is_sanitized = b"__asan_init" in program.read()
        if not is_sanitized:
            self.assertLess(usage.ru_maxrss, 200 * 1024)
            # A second is what it is meant to take; how busy the machine is, is not asked here.
            self.assertLess(seconds, 10)


if __name__ == "__main__":
    harness.main()
