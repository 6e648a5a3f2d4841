"""scripts/readme_table, on a folder of its own and on this repository."""

import copy
import json
import subprocess
import sys
import unittest

import harness
from harness import COLD_START, TINY

H200 = harness.ROOT / "results" / "h200" / "2026-11-29T183726-fe9e9e3b95.json"
README = "# Title\n\n<!-- BEGIN results:box -->\nold\n<!-- END results:box -->\n\nrest\n"


class ReadmeTable(harness.CliTest):
    def table(self, *arguments, root=None):
        return subprocess.run(
            [
                sys.executable,
                harness.ROOT / "scripts" / "readme_table",
                "--root",
                root or self.folder,
                *arguments,
            ],
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    def make(self, name):
        self.ends(
            self.run_program(
                *COLD_START,
                *TINY,
                "--variant",
                "naive,tiled",
                "--rounds",
                "2",
                "--quiet",
                "--json",
                f"results/box/{name}.json",
            ),
            0,
        )
        return json.loads((self.folder / f"results/box/{name}.json").read_text())

    def readme(self, text=None):
        if text is not None:
            (self.folder / "README.md").write_text(text)
        return (self.folder / "README.md").read_text()

    def test_writes_the_newest_document(self):
        self.make("2026-01-01T000000-aaaaaaaaaa")
        document = self.make("2026-01-02T000000-bbbbbbbbbb")
        self.readme(README)
        self.ends(self.table("--check"), 1)
        self.assertEqual(self.readme(), README)
        self.ends(self.table(), 0)
        text = self.readme()
        self.assertTrue(text.startswith("# Title\n\n<!-- BEGIN results:box -->\n"))
        self.assertTrue(text.endswith("<!-- END results:box -->\n\nrest\n"))
        self.assertIn("2026-01-02T000000-bbbbbbbbbb.json", text)
        self.assertNotIn("aaaaaaaaaa", text)
        self.assertNotIn("old", text)
        medians = {cell["variant"]: cell["summary"]["median_ns"] for cell in document["cells"]}
        ratio = max(medians.values()) / min(medians.values())
        self.assertRegex(text, rf"(?m)^\| `{min(medians, key=medians.get)}` .* {ratio:.2f}x \|$")
        self.ends(self.table("--check"), 0)
        self.ends(self.table(), 0)
        self.assertEqual(self.readme(), text)

    def test_digits_end_at_the_resolution(self):
        document = self.make("a")
        for cell, (median, resolution, shown) in zip(
            document["cells"],
            ((3860.4, 0.13, "3.860 us"), (123456789.0, 32, "123.4568 ms")),
            strict=True,
        ):
            cell.update(status="passed", reason="")
            cell["summary"].update(median_ns=median, resolution_ns=resolution)
            (self.folder / "results/box/a.json").write_text(json.dumps(document))
            self.readme(README)
            self.ends(self.table(), 0)
            self.assertIn(f"| `{cell['variant']}` | {shown} |", self.readme())

    def test_one_document_against_a_variant(self):
        self.make("a")
        self.make("b")
        self.readme(
            README.replace("results:box -->\nold", "results:box/a against=tiled -->\nold").replace(
                "END results:box ", "END results:box/a "
            )
        )
        self.ends(self.table(), 0)
        self.assertIn("box/a.json", self.readme())
        self.assertRegex(self.readme(), r"(?m)^\| variant .* against `tiled` \|$")
        self.assertRegex(self.readme(), r"(?m)^\| `tiled` .* 1\.00x \|$")

    def test_no_time_for_a_cell_that_is_not_right(self):
        document = self.make("a")
        cell = document["cells"][0]
        cell.update(status="untrusted", reason="faster than memory")
        (self.folder / "results/box/a.json").write_text(json.dumps(document))
        self.readme(README)
        self.ends(self.table(), 0)
        self.assertIn(f"No time: `{cell['variant']}` untrusted: faster than memory.", self.readme())
        self.assertNotIn(f"| `{cell['variant']}`", self.readme())

    def test_faults(self):
        document = self.make("a")
        for text, name in (
            ("no markers", "BEGIN results:NAME"),
            ("<!-- BEGIN results:box -->\n", "no partner"),
            (README.replace("box", "none"), "results/none"),
        ):
            self.readme(text)
            done = self.table()
            self.ends(done, 2)
            self.assertRegex(done.stderr, r"\Areadme_table: [^\n]+\n\Z")
            self.assertIn(name, done.stderr)
            self.assertEqual(self.readme(), text)
        self.readme(README)
        for broken in (
            "{",
            "[]",
            json.dumps({**document, "schema": "x/1"}),
            json.dumps({**document, "ended_by_signal": 2}),
        ):
            (self.folder / "results/box/a.json").write_text(broken)
            self.ends(self.table(), 2)
            self.assertEqual(self.readme(), README)

    def marked(self, kind, *options, name="box"):
        marker = " ".join([f"<!-- BEGIN {kind}:{name}", *options, "-->"])
        self.readme(f"# Title\n\n{marker}\nstale\n<!-- END {kind}:{name} -->\n")

    def keep(self, document, name="box/a"):
        path = self.folder / "results" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    def h200(self):
        """A run of the headline, hot and cold, in three precisions, with a rival's cells added."""
        document = json.loads(H200.read_text())
        for cell in copy.deepcopy(document["cells"]):
            if cell["variant"] == "tiled" and cell["precision"] != "fp16":
                cell.update(variant="cublaslt", kernels=cell["kernels"] * 2)
                cell["summary"]["median_ns"] *= 1.5
                document["cells"].append(cell)
        return document

    def rows_of(self, text):
        """The cells of each line of a table, without its head."""
        lines = [line for line in text.splitlines() if line.startswith("| ")]
        return [[cell.strip(" `*") for cell in line.strip("|").split("|")] for line in lines[1:]]

    def median(self, document, variant, precision, l2="hot"):
        (found,) = (
            cell["summary"]["median_ns"]
            for cell in document["cells"]
            if (cell["variant"], cell["precision"], cell["l2"]) == (variant, precision, l2)
        )
        return found

    def test_ladder(self):
        document = self.h200()
        self.keep(document)
        self.marked("ladder")
        done = self.table()
        self.ends(done, 0)
        rows = self.rows_of(self.readme())
        order = ["naive", "cublaslt", "tiled", "cooperative"]
        self.assertEqual(
            [row[:2] for row in rows],
            [["fp32", v] for v in order]
            + [["bf16", v] for v in order]
            + [["fp16", v] for v in order if v != "cublaslt"],
        )
        cells = {(c["precision"], c["variant"]): c for c in document["cells"] if c["l2"] == "hot"}
        for precision, variant, _, floor, part, speed in rows:
            cell = cells[precision, variant]
            median = cell["summary"]["median_ns"]
            self.assertEqual(floor, f"{median / cell['floors']['touch_ns']:.2f}")
            self.assertEqual(part, f"{100 * cell['roofline']['ns'] / median:.1f} %")
            rival = (
                "-"
                if precision == "fp16"
                else f"{self.median(document, 'cublaslt', precision) / median:.2f}x"
            )
            self.assertEqual(speed, rival)
        self.assertIn("No speed over `cublaslt` in fp16:", self.readme())
        self.assertRegex(done.stderr, r"\Areadme_table: ladder:box: no speed .* in fp16:[^\n]*\n\Z")
        self.ends(self.table("--check"), 0)

    def test_ladder_of_what_did_not_pass(self):
        document = self.h200()
        document["cells"][1].update(status="untrusted", reason="faster than light")
        self.keep(document)
        self.marked("ladder")
        self.ends(self.table(), 0)
        self.assertNotIn(["fp32", "tiled"], [row[:2] for row in self.rows_of(self.readme())])
        self.assertIn("No time: `tiled` in fp32 untrusted: faster than light.", self.readme())

    def test_cold(self):
        document = self.h200()
        document["cells"][3].update(status="untrusted", reason="not cold")  # naive, fp32
        self.keep(document)
        self.marked("cold")
        done = self.table()
        self.ends(done, 0)
        self.assertEqual(done.stderr, "")
        rows = {row[0]: row[1:] for row in self.rows_of(self.readme())}
        self.assertEqual(list(rows), ["tiled", "cooperative", "naive", "cublaslt"])
        for variant, cells in rows.items():
            for precision, cell in zip(("fp32", "bf16", "fp16"), cells, strict=True):
                if (variant, precision) in (("naive", "fp32"), ("cublaslt", "fp16")):
                    self.assertEqual(cell, "-")
                    continue
                cold = self.median(document, variant, precision, "cold")
                ratio = cold / self.median(document, variant, precision)
                self.assertRegex(cell, rf"us, {ratio:.2f}x\Z")

    def test_nothing_stale_where_the_newest_document_has_nothing_to_show(self):
        self.keep(self.h200(), "box/1")
        other = self.h200()
        for cell in other["cells"]:
            cell["problem"]["seq"] = 7
        self.keep(other, "box/2")
        for kind, lack in (("ladder", "No ladder:"), ("cold", "No cold caches:")):
            self.marked(kind)
            done = self.table()
            self.ends(done, 0)
            self.assertIn(lack.lower(), done.stderr)
            self.assertIn(lack, self.readme())
            self.assertIn("[2.json]", self.readme())
            self.assertNotIn("stale", self.readme())
            self.assertEqual(self.rows_of(self.readme() + "| |\n"), [])

    def peers(self):
        """As scripts/peers writes it."""
        return {
            "gpu": "NVIDIA H200",
            "torch": "2.11.0",
            "triton": "3.6.0",
            "rows": [
                {
                    "problem": problem,
                    "precision": precision,
                    "gflop": 0.0189,
                    "torch_eager": {"us": 20.6 * scale, "error": 1e-7},
                    "cublas3": {"us": 19.1 * scale},
                    "triton_a": {"us": 6.0 * scale, "error": 1e-7},
                    "triton_b": {"us": 5.5 * scale, "error": 1e-7},
                }
                for problem, precision, scale in (
                    ("headline", "fp32", 1),
                    ("headline", "tf32", 0.7),
                    ("headline", "bf16", 0.5),
                    ("V3 T=512", "bf16", 9),
                )
            ],
        }

    def test_peers(self):
        document = self.h200()
        self.keep(document)
        self.keep(self.peers(), "box/peers/b")
        self.marked("peers", "document=box/a", name="box/peers")
        done = self.table()
        self.ends(done, 0)
        self.assertEqual(done.stderr, "")
        self.assertIn("| | fp32 | bf16 |", self.readme().replace("|  |", "| |"))  # no tf32 of ours
        rows = {row[0]: row[1:] for row in self.rows_of(self.readme())}
        self.assertEqual(rows["torch_eager"], ["20.60 us", "10.30 us"])
        self.assertEqual(rows["triton_b"], ["5.50 us", "2.75 us"])
        best = [self.median(document, "cooperative", p) / 1e3 for p in ("fp32", "bf16")]
        library = [self.median(document, "cublaslt", p) / 1e3 for p in ("fp32", "bf16")]
        for cell, us in zip(rows["mla-bench, one kernel"], best, strict=True):
            self.assertEqual(cell, f"{us:.2f} us** `cooperative")
        self.assertEqual(
            rows["over the best Triton kernel"],
            [f"{5.5 / best[0]:.2f}x", f"{2.75 / best[1]:.2f}x"],
        )
        self.assertEqual(
            rows["over `cublaslt"], [f"{a / b:.2f}x" for a, b in zip(library, best, strict=True)]
        )

    def test_peers_without_the_library_and_of_another_gpu(self):
        document = self.h200()
        for cell in document["cells"]:
            if cell["variant"] == "cublaslt":
                cell.update(status="untrusted", reason="too fast")
        self.keep(document)
        self.keep(self.peers(), "box/peers/a")
        self.marked("peers", "document=box/a", name="box/peers")
        self.ends(self.table(), 0)
        self.assertIn("No time of `cublaslt` in fp32, bf16.", self.readme())
        self.keep({**self.peers(), "gpu": "NVIDIA L4"}, "box/peers/b")
        self.marked("peers", "document=box/a", name="box/peers")
        done = self.table()
        self.ends(done, 0)
        self.assertIn("a.json has no time of the headline on 'NVIDIA L4'", done.stderr)
        self.assertEqual(self.rows_of(self.readme() + "| |\n"), [])

    def test_rates(self):
        rate = {
            "planted": "nothing",
            "threshold": 0.03,
            "decisions": 1002,
            "verdicts": {"pass": 1000, "regression": 1, "inconclusive": 1},
            "pairs_least": 5,
            "pairs_most": 9,
            "seconds_a_gate": 41.6,
        }
        slowed = {**rate, "planted": "work", "slow_down": 0.05, "verdicts": {"regression": 299}}
        document = {
            "schema": "mla-bench-rates/1",
            "tool": {"version": "0.1.0", "commit": "a" * 40, "dirty": False},
            "devices": ["NVIDIA H200"],
            "started_at": "2026-11-29T23:00:00Z",
            "rates": [rate, slowed],
        }
        folder = self.folder / "results" / "rates"
        folder.mkdir(parents=True)
        (folder / "a.json").write_text(json.dumps(document))
        self.readme("<!-- BEGIN rates:rates -->\n<!-- END rates:rates -->\n")
        self.ends(self.table(), 0)
        text = self.readme()
        self.assertIn(
            "| nothing | 3 % | 1002 | 1000 pass | 1 | 1 | 10 to 18 | 42 s |\n"
            "| +5.0 % | 3 % | 299 | 299 found | 0 | 0 | 10 to 18 | 42 s |\n",
            text,
        )
        self.assertIn("[a.json](results/rates/a.json)", text)
        (folder / "b.json").write_text("{}")
        done = self.table()
        self.ends(done, 2)
        self.assertIn("gate_rates", done.stderr)

    def test_faults_of_tables(self):
        self.keep(self.h200())
        peers = self.peers()
        self.keep(peers, "box/peers/b")
        for kind, options, name in (
            ("ladders", (), "results, ladder"),
            ("ladder", ("against=naive",), "no options"),
            ("ladder:box/peers", (), "no schema"),
            ("peers:box/peers", (), "document="),
            ("peers:box/peers", ("document=box/none",), "box/none"),
            ("peers:box/a", ("document=box/a",), "scripts/peers"),
        ):
            kind, _, path = kind.partition(":")
            self.marked(kind, *options, name=path or "box")
            text = self.readme()
            done = self.table()
            self.ends(done, 2)
            self.assertRegex(done.stderr, r"\Areadme_table: [^\n]+\n\Z")
            self.assertIn(name, done.stderr)
            self.assertEqual(self.readme(), text)
        for us in (0, -1, "x", None, {}):
            peers["rows"][0]["triton_a"]["us"] = us
            self.keep(peers, "box/peers/b")
            self.marked("peers", "document=box/a", name="box/peers")
            done = self.table()
            self.ends(done, 2)
            self.assertRegex(done.stderr, r"\Areadme_table: [^\n]+scripts/peers[^\n]+\n\Z")
        broken = self.h200()
        del broken["cells"][0]["problem"]
        self.keep(broken)
        self.marked("ladder")
        self.ends(self.table(), 2)

    @unittest.skipUnless((harness.ROOT / "README.md").exists(), "this tree has no README.md")
    def test_this_repository(self):
        done = self.table("--check", root=harness.ROOT)
        self.ends(done, 0)


if __name__ == "__main__":
    harness.main()
