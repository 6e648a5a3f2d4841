"""scripts/readme_table, on a folder of its own and on this repository."""

import json
import subprocess
import sys
import unittest

import harness
from harness import COLD_START, TINY

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

    @unittest.skipUnless((harness.ROOT / "README.md").exists(), "this tree has no README.md")
    def test_this_repository(self):
        done = self.table("--check", root=harness.ROOT)
        self.ends(done, 0)


if __name__ == "__main__":
    harness.main()
