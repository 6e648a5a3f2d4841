"""What the command-line tests share: the built program, run from outside in a folder of its own.

A test file ends with `harness.main()`; it is called as `NAME_test.py PROGRAM [unittest arguments]`.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
PROGRAM = ""

# A cell whose output was right; on a busy machine its time may not be trusted.
RIGHT = ("passed", "untrusted")

# The shortest run that measures: one round, no warm-up, a shape that takes microseconds.
TINY = ("--batch 1 --seq 8 --model-dim 16 --rank 4 --kv-heads 2 --head-dim 8").split()
COLD_START = ("--device cpu --threads 1 --warmup 0").split()
BRIEF = [*COLD_START, "--rounds", "1"]


def schema():
    return json.loads((ROOT / "results" / "schema.json").read_text(encoding="utf-8"))


def parse_document(text):
    """JSON as RFC 8259 has it: Python alone would take NaN and Infinity."""

    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def schema_errors(document):
    validator = jsonschema.Draft202012Validator(schema())
    return [
        f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"
        for e in validator.iter_errors(document)
    ]


def id_of(cell):
    """Of a cell of a document, which may be older and name GPUs by their index in its own id."""
    place = cell["device"] if cell["backend"] == "cuda" else "cpu"
    p = cell["problem"]
    gpus = 1 + len(cell.get("concurrent_with", []))
    return (
        f"{cell['variant']}/{place}/B:{p['batch']}/S:{p['seq']}/Dm:{p['model_dim']}/R:{p['rank']}"
        f"/H:{p['kv_heads']}/D:{p['head_dim']}/{cell['precision']}/{cell['l2']}"
        + (f"/copy:{cell['copy']}" if "copy" in cell else "")
        + (f"/concurrent:{gpus}" if gpus > 1 else "")
    )


class CliTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mla-bench-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, **changes):
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("BENCHMARK_", "OMP_", "LC_", "LANG"))
        }
        return {**kept, **changes}

    def start(self, *arguments, env=None, **how):
        return subprocess.Popen(
            [PROGRAM, *arguments], cwd=self.folder, env=env or self.environment(), **how
        )

    def run_program(self, *arguments, env=None, stdout=subprocess.PIPE, timeout=60):
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=env or self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=timeout,
        )

    def run_shell(self, command):
        """A POSIX shell line with mla-bench on PATH."""
        folder = os.path.dirname(PROGRAM)
        env = self.environment(PATH=folder + os.pathsep + os.environ["PATH"])
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
        )

    def files(self):
        return sorted(
            str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if not p.is_dir()
        )

    def ends(self, done, code):
        self.assertEqual(done.returncode, code, f"stdout: {done.stdout}\nstderr: {done.stderr}")

    def ends_with_one_line(self, done, code, *names):
        """As users rely on it: one line on stderr that names what is at fault, nothing else."""
        self.ends(done, code)
        self.assertRegex(done.stderr, r"\Amla-bench: [^\n]+\n\Z")
        for name in names:
            self.assertIn(name, done.stderr)
        self.assertIn(done.stdout, ("", None))

    def document(self, path_or_text):
        """A whole document, true to the schema (where jsonschema is there) and to itself."""
        is_path = isinstance(path_or_text, pathlib.Path)
        text = path_or_text.read_text(encoding="utf-8") if is_path else path_or_text
        document = parse_document(text)
        if jsonschema:
            self.assertEqual(schema_errors(document), [])
        uuids = [device["uuid"] for device in document["devices"]]
        ids = [cell["id"] for cell in document["cells"]]
        self.assertEqual(len(ids), len(set(ids)), "an id stands twice")
        for cell in document["cells"]:
            self.consistent(cell)
            self.assertIn(cell["device"], uuids)
        return document

    def consistent(self, cell):
        # Documents before 2026-11-30 name a GPU by its index.
        older = cell["id"].replace(f"/cuda:{cell['ordinal']}/", f"/{cell['device']}/")
        self.assertEqual(older, id_of(cell))
        for measured in cell["rounds"]:
            self.assertEqual(len(measured["samples_ns"]), len(measured["long_ns"]))
            launches = measured["long_launches"] - measured["short_launches"]
            shorts = measured["short_ns"] or [0] * len(measured["long_ns"])
            for short, long, sample in zip(
                shorts, measured["long_ns"], measured["samples_ns"], strict=True
            ):
                self.assertAlmostEqual(
                    sample, (long - short) / launches, delta=1e-6 * long / launches
                )
        if "summary" in cell:
            samples = [sample for measured in cell["rounds"] for sample in measured["samples_ns"]]
            self.assertEqual(cell["summary"]["samples"], len(samples))
            self.assertEqual(cell["summary"]["median_ns"], statistics.median(samples))
            self.assertEqual(cell["summary"]["min_ns"], min(samples))

    def has_gpu(self):
        return "no GPU:" not in self.run_program("list").stdout


def main():
    """Ends with 0, with 1 where a test failed, and with 77 where not one could run."""
    global PROGRAM
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(f"usage: {sys.argv[0]} PROGRAM [unittest arguments]")
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    program = unittest.main(verbosity=2, exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if len(result.skipped) == result.testsRun else 0)
