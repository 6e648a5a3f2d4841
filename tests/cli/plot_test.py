"""scripts/plot: what is drawn is what the documents say, and unfit documents are refused."""

import contextlib
import copy
import importlib.machinery
import importlib.util
import io
import json
import math
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import harness

try:
    from matplotlib.figure import Figure
except ImportError:
    Figure = None

SCRIPT = harness.ROOT / "scripts" / "plot"
HEADLINE = harness.ROOT / "results" / "h200" / "2026-11-29T183726-fe9e9e3b95.json"
NASTY = "GPU <&> $x^2$ -- \ud800\x07"


def script():
    """The script as a module, to look at figures before they are pictures."""
    sys.path.insert(0, str(SCRIPT.parent))
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("plot", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("plot", loader))
    loader.exec_module(module)
    return module


def lose_time(cell, status="failed"):
    """Makes of a cell one that broke."""
    for key in ("summary", "recheck"):
        cell.pop(key, None)
    cell.update(status=status, reason="it broke")


@unittest.skipUnless(Figure, "no Matplotlib for this Python")
class Plot(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.headline = json.loads(HEADLINE.read_text())

    def plot(self, kind, *arguments, output="picture"):
        return subprocess.run(
            [sys.executable, SCRIPT, kind, *arguments, "--output", output],
            cwd=self.folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    def keep(self, document, name="a.json"):
        path = self.folder / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def texts(self, output="picture"):
        """Of the SVG, which holds each as a comment beside its outlines."""
        text = (self.folder / f"{output}.svg").read_text(encoding="utf-8")
        xml.etree.ElementTree.fromstring(text)
        return re.findall(r"<!-- (.*?) -->", text, re.DOTALL)

    def refused(self, done, *names):
        self.ends(done, 2)
        self.assertRegex(done.stderr, r"\Aplot: [^\n]+\n\Z")
        for name in names:
            self.assertIn(name, done.stderr)
        self.assertEqual([f for f in self.files() if not f.endswith(".json")], [])

    def figure(self, kind, *documents):
        """Before it is a picture: its axes, and what was said."""
        plot = script()
        paths = [self.keep(document, f"{i}.json") for i, document in enumerate(documents)]
        figure = Figure()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            plot.KINDS[kind](figure, plot.drawable(plot.read_cells(paths)[0], {}))
        return figure.axes, said.getvalue()

    def hot(self, precision="fp32"):
        document = copy.deepcopy(self.headline)
        document["cells"] = [
            c for c in document["cells"] if c["l2"] == "hot" and c["precision"] == precision
        ]
        return document

    def sweep(self):
        """Of three numbers of rows, with times that differ from cell to cell."""
        document = self.hot()
        cells = []
        for rows in (1, 64, 4096):
            for cell in copy.deepcopy(document["cells"][1:]):
                cell["problem"].update(batch=1, seq=rows)
                cell["summary"]["median_ns"] *= 1 + rows / 100
                cells.append(cell)
        document["cells"] = cells
        return document

    def test_every_kind_is_a_picture_and_the_same_each_time(self):
        other = copy.deepcopy(self.headline)
        other["devices"][0].update(uuid="GPU-other", name=NASTY)
        for cell in other["cells"]:
            cell["device"] = "GPU-other"
        self.keep(other, "other.json")
        self.keep(self.sweep(), "sweep.json")
        # Nobody's own settings may tell.
        (self.folder / "matplotlibrc").write_text("svg.fonttype: none\nlines.linewidth: 7\n")
        for kind, files in (
            ("ladder", [HEADLINE]),
            ("samples", [HEADLINE]),
            ("rows", ["sweep.json"]),
            ("devices", [HEADLINE, "other.json"]),
        ):
            with self.subTest(kind=kind):
                for output in ("one", "two"):
                    done = self.plot(kind, *files, output=output)
                    self.ends(done, 0)
                    self.assertEqual(done.stderr + done.stdout, "")
                    self.assertTrue(self.texts(output))
                for suffix in ("svg", "png"):
                    one = (self.folder / f"one.{suffix}").read_bytes()
                    self.assertEqual(one, (self.folder / f"two.{suffix}").read_bytes())
                self.assertTrue(one.startswith(b"\x89PNG\r\n"))
                self.assertNotIn("partial", " ".join(self.files()))

    def test_ladder_says_what_the_document_says(self):
        self.ends(self.plot("ladder", HEADLINE, "--l2", "hot", "--precision", "bf16"), 0)
        texts = self.texts()
        for cell in self.headline["cells"]:
            if (cell["l2"], cell["precision"]) == ("hot", "bf16"):
                median = cell["summary"]["median_ns"]
                self.assertIn(cell["variant"], texts)
                floor = f"{median / cell['floors']['touch_ns']:.1f}x floor"
                part = f"{100 * cell['roofline']['ns'] / median:.1f} % of roofline"
                self.assertEqual(len([t for t in texts if t.endswith(f" us, {floor}, {part}")]), 1)
        self.assertFalse([t for t in texts if "fp32" in t or "cold" in t])

    def test_ladder_draws_medians_floors_and_rooflines(self):
        document = self.hot()
        axes, said = self.figure("ladder", document)
        self.assertEqual(said, "")
        medians = [cell["summary"]["median_ns"] for cell in document["cells"]]
        self.assertEqual([bar.get_width() for bar in axes[0].patches], sorted(medians)[::-1])
        marks = {mark.get_segments()[0][0][0] for mark in axes[0].collections}
        self.assertEqual(
            marks,
            {c["floors"]["touch_ns"] for c in document["cells"]}
            | {c["roofline"]["ns"] for c in document["cells"]},
        )

    def test_cells_that_did_not_pass(self):
        document = self.hot()
        lose_time(document["cells"][0])
        document["cells"][1].update(status="untrusted", reason="faster than light")
        axes, said = self.figure("ladder", document)
        self.assertEqual(len(said.splitlines()), 2)
        self.assertRegex(said, r"(?m)^plot: left out: naive, .*: failed: it broke$")
        self.assertRegex(said, r"(?m)^plot: drawn hollow: tiled, .*: untrusted: faster than light$")
        looks = {bar.get_width(): bar.get_facecolor()[:3] for bar in axes[0].patches}
        self.assertEqual(len(looks), 2)
        for cell in document["cells"][1:]:
            hollow = looks[cell["summary"]["median_ns"]] == (1, 1, 1)
            self.assertEqual(hollow, cell["status"] == "untrusted")

    def test_rows(self):
        document = self.sweep()
        lose_time(document["cells"][2])  # tiled at T = 64
        (upper, lower), said = self.figure("rows", document)
        self.assertIn("left out: tiled", said)
        cells = {(c["variant"], c["problem"]["seq"]): c for c in document["cells"]}
        for axes, of in (
            (upper, lambda c: c["summary"]["median_ns"]),
            (lower, lambda c: 100 * c["roofline"]["ns"] / c["summary"]["median_ns"]),
        ):
            tiled, cooperative = axes.get_lines()[:2]
            for line, variant in ((tiled, "tiled"), (cooperative, "cooperative")):
                self.assertEqual(list(line.get_xdata()), [1, 64, 4096])
                for rows, y in zip((1, 64, 4096), line.get_ydata(), strict=True):
                    if (variant, rows) == ("tiled", 64):
                        self.assertTrue(math.isnan(y))
                    else:
                        self.assertEqual(y, of(cells[variant, rows]))
            self.assertNotEqual(tiled.get_marker(), cooperative.get_marker())
            names = [text.get_text() for text in axes.texts]
            self.assertEqual(names[:2], ["tiled", "cooperative"])
        self.assertEqual((upper.get_xscale(), upper.get_yscale()), ("log", "log"))

    def test_rows_of_a_real_sweep(self):
        done = subprocess.run(
            [harness.ROOT / "scripts" / "sweep", "--json", "sweep.json", *harness.COLD_START]
            + "--seq 1,4 --rounds 1 --variant tiled --precision fp32 --quiet".split(),
            cwd=self.folder,
            env=self.environment(MLA_BENCH_PROGRAM=harness.PROGRAM),
            capture_output=True,
            text=True,
        )
        self.ends(done, 0)
        self.ends(self.plot("rows", "sweep.json"), 0)
        self.assertIn("tiled", " ".join(self.texts()))

    def test_labels_do_not_overlap(self):
        spread = script().spread
        for wanted in ([0.5] * 5, [1.0] * 4, [0.0, 0.0, 0.9, 0.91], [0.3]):
            places = spread(wanted, 0.1)
            self.assertTrue(all(-1e-9 <= place <= 1 + 1e-9 for place in places))
            ordered = sorted(places)
            for low, high in zip(ordered, ordered[1:]):
                self.assertGreaterEqual(high - low, 0.1 - 1e-9)
        self.assertEqual(spread([0.2, 0.8], 0.1), [0.2, 0.8])

    def test_samples_are_all_drawn(self):
        document = self.hot()
        document["cells"][0]["rounds"][0]["slow_clock_samples"] = [0, 2]
        (axes,), _ = self.figure("samples", document)
        drawn = [line for line in axes.get_lines() if line.get_linestyle() == "None"]
        slow = sum(len(line.get_xdata()) for line in drawn if line.get_marker() == "x")
        self.assertEqual(slow, 2)
        self.assertEqual(
            sum(len(line.get_xdata()) for line in drawn),
            sum(cell["summary"]["samples"] for cell in document["cells"]),
        )
        first = document["cells"][0]
        sample = first["rounds"][0]["samples_ns"][1]
        self.assertAlmostEqual(
            drawn[0].get_xdata()[0], 100 * (sample / first["summary"]["median_ns"] - 1)
        )

    def test_devices(self):
        one, two = self.hot(), self.hot()
        two["devices"][0]["uuid"] = "GPU-another-of-them"
        for cell in two["cells"]:
            cell["device"] = "GPU-another-of-them"
            cell["summary"]["median_ns"] *= 2
        axes, _ = self.figure("devices", one, two)
        self.assertEqual(
            sorted(bar.get_width() for bar in axes[0].patches),
            sorted(c["summary"]["median_ns"] for d in (one, two) for c in d["cells"]),
        )
        self.assertEqual(len({bar.get_hatch() for bar in axes[0].patches}), 2)
        self.assertEqual(sum(text.get_text().endswith(", 0.50x") for text in axes[0].texts), 3)
        # Two of one name are told apart.
        self.ends(self.plot("devices", "0.json", "1.json"), 0)
        self.assertTrue([t for t in self.texts() if "NVIDIA H200 GPU-another-" in t])
        for path in ("0.json", "1.json"):
            (self.folder / f"picture.{'svg' if path[0] == '0' else 'png'}").unlink()
        self.refused(self.plot("devices", "0.json"), "2 to", "of 1")
        # A GPU that was measured beside another is not taken for the same alone.
        for cell in two["cells"]:
            cell.update(device=one["cells"][0]["device"], concurrent_with=["GPU-another-of-them"])
        two["devices"][0]["uuid"] = one["devices"][0]["uuid"]
        self.figure("devices", one, two)
        self.ends(self.plot("devices", "0.json", "1.json"), 0)
        self.assertTrue([t for t in self.texts() if "NVIDIA H200, 2 GPUs at once" in t])

    def test_foreign_names_are_only_text(self):
        document = self.hot()
        document["devices"][0]["name"] = NASTY
        self.keep(document)
        self.ends(self.plot("ladder", "a.json"), 0)
        self.assertTrue([t for t in self.texts() if "GPU &lt;&amp;&gt; $x^2$ - - ??" in t])

    def test_unfit_documents(self):
        whole = self.hot()
        for broken, name in (
            ("", "no JSON"),
            ("{", "no JSON"),
            ("[" * 100000, "no JSON"),
            ("[]", "no document"),
            ('{"a": NaN}', "NaN"),
            (json.dumps({**whole, "schema": "x/1"}), "x/1"),
            (json.dumps({**whole, "finished_at": None}), "did not come to its end"),
            (json.dumps({**whole, "cells": [1]}), "schema.json"),
            (json.dumps({**whole, "devices": []}), "schema.json"),
        ):
            (self.folder / "a.json").write_text(broken)
            self.refused(self.plot("ladder", "a.json"), "a.json", name)
        for key, value in (("median_ns", -1), ("median_ns", "5"), ("median_ns", 1e300)):
            document = self.hot()
            document["cells"][1]["summary"][key] = value
            self.keep(document)
            self.refused(self.plot("ladder", "a.json"), "a.json", "schema.json")
        self.refused(self.plot("ladder", "none.json"), "none.json")

    def test_documents_that_do_not_suit(self):
        self.keep(self.hot())
        self.refused(self.plot("rows", "a.json"), "T = 384")
        self.refused(self.plot("devices", "a.json"), "of 1")
        self.refused(self.plot("ladder", "a.json", "a.json"), "stands there twice")
        self.refused(self.plot("ladder", "a.json", "--variant", "tilde"), "'tilde'", "tiled")
        self.refused(self.plot("ladder", "a.json", output="nowhere/b"), "--output")
        self.keep(self.sweep())
        self.refused(self.plot("ladder", "a.json"), "one problem", "1x64x256")
        document = self.hot()
        for cell in document["cells"]:
            lose_time(cell)
        self.keep(document)
        done = self.plot("ladder", "a.json")
        self.ends(done, 2)
        self.assertEqual(done.stderr.splitlines()[-1], "plot: no cell has a time")


if __name__ == "__main__":
    harness.main()
