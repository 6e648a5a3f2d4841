"""mla-bench export, on a committed document: what the tools of the names require, field by field."""

import csv
import io
import json
import os
import re
import statistics
import subprocess
import unittest
import xml.etree.ElementTree

import harness

USAGE = 2
INCOMPARABLE = 5
HEADLINE = harness.ROOT / "results" / "h200" / "2026-11-29T183726-fe9e9e3b95.json"
WITH_SKIPPED = harness.ROOT / "results" / "h200" / "2026-11-29T183829-fe9e9e3b95.json"
COMPARE_PY = "/usr/share/benchmark/compare.py"  # of Debian's libbenchmark-tools


def has_compare_py():
    """compare.py runs under the system's Python and needs scipy, which its package does not pull in."""
    if not os.path.exists(COMPARE_PY):
        return False
    tried = subprocess.run(
        ["/usr/bin/python3", "-c", "import numpy, scipy.stats"], capture_output=True, check=False
    )
    return tried.returncode == 0


def medians(cell):
    return [statistics.median(measured["samples_ns"]) for measured in cell["rounds"]]


class ExportCase(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.cells = json.loads(HEADLINE.read_text(encoding="utf-8"))["cells"]

    def exported(self, form, *arguments, document=HEADLINE):
        done = self.run_program("export", str(document), "--to", form, *arguments)
        self.ends(done, 0)
        self.assertTrue(done.stdout.isascii())
        return done.stdout

    def exported_json(self, form, *arguments, document=HEADLINE):
        return harness.parse_document(self.exported(form, *arguments, document=document))

    def names_are_good(self, names, expected):
        self.assertEqual(len(names), expected)
        self.assertEqual(len(set(names)), expected)
        for name in names:
            self.assertRegex(name, r"\A[!-~]{1,255}\Z")
            self.assertNotRegex(name, r"(?i)bencher[-_]?ignore\Z")  # Bencher would mute it


class GoogleBenchmark(ExportCase):
    def test_a_row_a_round(self):
        file = self.exported_json("gbench", "--no-aggregates")
        self.assertEqual(file["context"]["json_schema_version"], 1)
        self.assertEqual(file["context"]["caches"], [])
        rows = file["benchmarks"]
        self.assertEqual(len(rows), sum(len(cell["rounds"]) for cell in self.cells))
        expected = [ns for cell in self.cells for ns in medians(cell)]
        self.assertEqual([row["real_time"] for row in rows], expected)
        for row in rows:
            self.assertEqual(row["time_unit"], "ns")
            self.assertEqual(row["cpu_time"], row["real_time"])
            self.assertEqual(row["run_name"], row["name"])
            self.assertEqual(row["run_type"], "iteration")
            self.assertLess(row["repetition_index"], row["repetitions"])
            self.assertIsInstance(row["iterations"], int)
            self.assertGreater(row["iterations"], 0)
        self.names_are_good(sorted({row["name"] for row in rows}), len(self.cells))

    def test_a_build_for_debugging_says_so(self):
        document = harness.parse_document(HEADLINE.read_text(encoding="utf-8"))
        path = self.folder / "a.json"
        for build_type, expected in (("Release", "release"), ("Debug", "debug")):
            document["tool"]["build_type"] = build_type
            path.write_text(json.dumps(document), encoding="utf-8")
            for form in ("gbench", "gbench-ci"):
                context = self.exported_json(form, document=path)["context"]
                self.assertEqual(context["library_build_type"], expected)

    def test_aggregates(self):
        rows = self.exported_json("gbench")["benchmarks"]
        first = [row for row in rows if row["family_index"] == 0]
        values = {
            row["aggregate_name"]: row["real_time"]
            for row in first
            if row["run_type"] == "aggregate"
        }
        times = medians(self.cells[0])
        self.assertAlmostEqual(values["mean"], statistics.mean(times), places=6)
        self.assertAlmostEqual(values["median"], statistics.median(times), places=6)
        self.assertAlmostEqual(values["stddev"], statistics.stdev(times), places=6)
        self.assertAlmostEqual(
            values["cv"], statistics.stdev(times) / statistics.mean(times), places=9
        )

    def test_one_row_a_cell_for_trackers(self):
        file = self.exported_json("gbench-ci")
        rows = file["benchmarks"]
        self.names_are_good([row["name"] for row in rows], len(self.cells))
        for row, cell in zip(rows, self.cells, strict=True):
            self.assertEqual(row["real_time"], cell["summary"]["median_ns"])
            self.assertEqual(row["repetitions"], 1)
            for key in ("iterations", "cpu_time", "threads", "time_unit"):
                self.assertIn(key, row)

    def test_cells_without_a_time_are_left_out_and_said(self):
        done = self.run_program("export", str(WITH_SKIPPED), "--to", "gbench-ci")
        self.ends(done, 0)
        file = harness.parse_document(done.stdout)
        self.assertEqual(len(file["benchmarks"]), 2)
        self.assertIn("/naive/", file["context"]["mla_bench_left_out"])
        self.assertRegex(done.stderr, r"\Amla-bench: [^\n]*left out [^\n]*/naive/[^\n]*skipped[^\n]*\n\Z")

    @unittest.skipUnless(has_compare_py(), "no compare.py of Google Benchmark, or no scipy")
    def test_compare_py_compares_variants_inside_one_file(self):
        self.exported("gbench", "--output", "all.json")
        done = subprocess.run(
            ["/usr/bin/python3", COMPARE_PY, "--no-color", "filters", "all.json", "/tiled/", "/cooperative/"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        cell = {(c["variant"], c["precision"], c["l2"]): c for c in self.cells}
        for precision in ("fp32", "bf16", "fp16"):
            for l2 in ("hot", "cold"):
                mine = [line for line in lines if f"/{precision}/{l2}/normal:0" in line]
                old = medians(cell["tiled", precision, l2])
                new = medians(cell["cooperative", precision, l2])
                self.assertEqual(sum("_pvalue" in line for line in mine), 1)
                mean = next(line for line in mine if "_mean" in line).split()
                change = statistics.mean(new) / statistics.mean(old) - 1
                self.assertAlmostEqual(float(mean[-6]), change, delta=1e-4)
                self.assertAlmostEqual(float(mean[-4]), statistics.mean(old), delta=0.51)
                self.assertAlmostEqual(float(mean[-3]), statistics.mean(new), delta=0.51)
        self.assertIn("OVERALL_GEOMEAN", done.stdout)


class Trackers(ExportCase):
    def test_bencher_metric_format(self):
        file = self.exported_json("bmf")
        self.names_are_good(list(file), len(self.cells))
        for measures, cell in zip(file.values(), self.cells, strict=True):
            self.assertEqual(
                set(measures),
                {"latency", "cycles", "sm-clock", "pct-of-roofline", "relative-error"},
            )
            for metric in measures.values():
                self.assertLessEqual(set(metric), {"value", "lower_value", "upper_value"})
                self.assertTrue(all(isinstance(number, (int, float)) for number in metric.values()))
            latency = measures["latency"]
            self.assertEqual(latency["value"], cell["summary"]["median_ns"])
            self.assertLessEqual(latency["lower_value"], latency["value"])
            self.assertLessEqual(latency["value"], latency["upper_value"])

    def test_github_action_benchmark(self):
        file = self.exported_json("gha")
        self.assertIsInstance(file, list)
        self.names_are_good([entry["name"] for entry in file], len(self.cells))
        for entry, cell in zip(file, self.cells, strict=True):
            self.assertEqual(set(entry), {"name", "unit", "value", "range", "extra"})
            self.assertEqual(entry["unit"], "ns")
            self.assertEqual(entry["value"], cell["summary"]["median_ns"])
            self.assertRegex(entry["range"], r"\A\+- \d+\.\d\d %\Z")

    def test_hyperfine(self):
        results = self.exported_json("hyperfine")["results"]
        self.names_are_good([entry["command"] for entry in results], len(self.cells))
        for entry, cell in zip(results, self.cells, strict=True):
            times = [1e-9 * ns for ns in medians(cell)]
            self.assertEqual(len(entry["times"]), len(times))
            self.assertEqual(entry["exit_codes"], [0] * len(times))
            for key, value in (
                ("mean", statistics.mean(times)),
                ("stddev", statistics.stdev(times)),
                ("median", statistics.median(times)),
                ("min", min(times)),
                ("max", max(times)),
            ):
                self.assertAlmostEqual(entry[key], value, delta=1e-9 * max(times))
            self.assertEqual((entry["user"], entry["system"]), (0, 0))


class Tables(ExportCase):
    def test_csv(self):
        rows = list(csv.DictReader(io.StringIO(self.exported("csv"), newline="")))
        self.assertEqual(len(rows), len(self.cells))
        for row, cell in zip(rows, self.cells, strict=True):
            self.assertNotIn(None, row)
            self.assertEqual(float(row["median_ns"]), cell["summary"]["median_ns"])
            self.assertEqual(float(row["frobenius_error"]), cell["check"]["frobenius_error"])
            self.assertEqual(row["command"], cell["command"].replace("cuda:0", cell["device"]))
        skipped = next(
            csv.DictReader(io.StringIO(self.exported("csv", document=WITH_SKIPPED), newline=""))
        )
        self.assertEqual((skipped["status"], skipped["median_ns"]), ("skipped", ""))

    def test_markdown(self):
        lines = self.exported("md").splitlines()
        self.assertEqual(len(lines), 2 + len(self.cells))
        self.assertEqual(len({line.count("|") for line in lines}), 1)

    def test_junit(self):
        for document, skipped in ((HEADLINE, 0), (WITH_SKIPPED, 1)):
            cells = json.loads(document.read_text(encoding="utf-8"))["cells"]
            root = xml.etree.ElementTree.fromstring(self.exported("junit", document=document))
            self.assertEqual(root.tag, "testsuites")
            self.assertEqual([suite.tag for suite in root], ["testsuite"])
            for element in (root, root[0]):
                counts = [element.get(key) for key in ("tests", "failures", "errors", "skipped")]
                self.assertEqual(counts, [str(len(cells)), "0", "0", str(skipped)])
            cases = root[0].findall("testcase")
            self.names_are_good([case.get("name") for case in cases], len(cells))
            self.assertEqual(len(root.findall(".//skipped")), skipped)
            for case, cell in zip(cases, cells, strict=True):
                self.assertTrue(case.get("classname"))
                if cell["status"] == "passed":
                    self.assertAlmostEqual(
                        float(case.get("time")), 1e-9 * cell["summary"]["median_ns"], delta=1e-12
                    )

    def test_junit_takes_a_strangers_text(self):
        document = json.loads(WITH_SKIPPED.read_text(encoding="utf-8"))
        document["cells"][0]["reason"] = "\x1b[31m </testcase> & \ufffe \" ]]> \u00e9"
        name = "a\udcff<&>.json"
        (self.folder / name).write_text(json.dumps(document), encoding="utf-8")
        done = self.run_program("export", name, "--to", "junit", "--output", "a.xml")
        self.ends(done, 0)
        root = xml.etree.ElementTree.parse(self.folder / "a.xml").getroot()
        message = root.find(".//skipped").get("message")
        self.assertIn("</testcase> &", message)
        self.assertIn("\\x1b[31m", message)
        self.assertIn("\u00e9", message)


class Strangers(ExportCase):
    def test_names_drive_no_reader(self):
        """Formulas, markup and control characters in what a document may hold as text."""
        document = json.loads(WITH_SKIPPED.read_text(encoding="utf-8"))
        for device in document["devices"]:
            device["name"] = "=cmd|'/c calc'!A1 \x1b[31m\x9b | <b> `x`"
        document["cells"][0]["reason"] = "@SUM(1) \x07\x1b]0;x\x07 | <script>"
        document["cells"][1]["inputs"] = {"file": "+1-\x1b[2J <b>|.safetensors"}
        (self.folder / "a.json").write_text(json.dumps(document), encoding="utf-8")
        for form in ("gbench", "gbench-ci", "bmf", "gha", "hyperfine", "csv", "md", "junit"):
            with self.subTest(form=form):
                done = self.run_program("export", "a.json", "--to", form)
                self.ends(done, 0)
                for control in ("\x1b", "\x07", "\x9b"):
                    self.assertNotIn(control, done.stdout + done.stderr)
        for row in csv.reader(io.StringIO(self.exported("csv", document="a.json"), newline="")):
            for field in row:
                self.assertNotRegex(field, r"\A[=+@\t\r]|\A-(?![0-9.]+(e-?[0-9]+)?\Z)")
        for line in self.exported("md", document="a.json").splitlines():
            self.assertNotRegex(line, r"<(b|script)>")
            self.assertEqual(len(re.findall(r"(?<!\\)\|", line)), 12)


class Files(ExportCase):
    def test_output(self):
        text = self.exported("csv")
        done = self.run_program("export", str(HEADLINE), "--to", "csv", "--output", "deep/a.csv")
        self.ends(done, 0)
        self.assertEqual((done.stdout, done.stderr), ("", ""))
        with open(self.folder / "deep" / "a.csv", newline="", encoding="utf-8") as file:
            self.assertEqual(file.read().replace("\r\n", "\n"), text.replace("\r\n", "\n"))
        self.ends_with_one_line(
            self.run_program("export", str(HEADLINE), "--to", "csv", "--output", "deep"),
            USAGE,
            "'deep'",
            "folder",
        )

    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = self.run_program("export", str(HEADLINE), "--to", "csv", stdout=full)
        self.ends_with_one_line(done, USAGE, "stdout")

    def test_the_same_cell_twice(self):
        again = json.loads(HEADLINE.read_text(encoding="utf-8"))
        again["started_at"] = "2026-11-30T00:00:00Z"
        (self.folder / "b.json").write_text(json.dumps(again), encoding="utf-8")
        done = self.run_program("export", str(HEADLINE), "b.json", "--to", "gha")
        self.ends_with_one_line(done, USAGE, "'b.json'", "both have", "kv_up/naive")
        done = self.run_program("export", str(HEADLINE), "b.json", "--to", "csv")
        self.ends(done, 0)
        self.assertEqual(done.stdout.count("b.json"), len(self.cells))

    def test_nothing_to_export(self):
        document = json.loads(WITH_SKIPPED.read_text(encoding="utf-8"))
        document["cells"] = [c for c in document["cells"] if c["status"] == "skipped"]
        (self.folder / "a.json").write_text(json.dumps(document), encoding="utf-8")
        done = self.run_program("export", "a.json", "--to", "gbench-ci")
        self.ends(done, INCOMPARABLE)
        self.assertEqual(harness.parse_document(done.stdout)["benchmarks"], [])
        self.assertIn("no cell has a time", done.stderr)

    def test_options(self):
        for arguments, parts in (
            ([str(HEADLINE)], ["--to"]),
            ([str(HEADLINE), "--to", "xml"], ["--to", "junit"]),
            (["--to", "csv"], ["FILE..."]),
            (["nope.json", "--to", "csv"], ["'nope.json'"]),
            ([str(HEADLINE), "--to", "csv", "--no-aggregates"], ["--no-aggregates"]),
        ):
            with self.subTest(arguments=arguments):
                self.ends_with_one_line(self.run_program("export", *arguments), USAGE, *parts)


if __name__ == "__main__":
    harness.main()
