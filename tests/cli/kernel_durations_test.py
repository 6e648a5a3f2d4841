"""scripts/kernel_durations and scripts/profile, on a document as far as they read it and a table as
ncu writes it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import harness

SAMPLE = pathlib.Path(__file__).with_name("kernel_durations.csv").read_text(encoding="utf-8")
SHAPE = {"batch": 4, "seq": 96, "model_dim": 256, "rank": 48, "kv_heads": 4, "head_dim": 32}
KERNELS = {
    "naive": "naive_kernel",
    "tiled": "tiled_kernel",
    "cooperative": "void mla_bench::cooperative_kernel",
}
PERIODS_NS = {"naive": 451472.0, "tiled": 6801.3, "cooperative": 4889.9}


def document():
    cells = [
        {
            "id": f"{variant}/cuda:0/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot",
            "variant": variant,
            "device": "GPU-1",
            "precision": "fp32",
            "l2": "hot",
            "problem": SHAPE,
            "status": "passed",
            "kernels": [{"name": kernel}],
            "summary": {"median_ns": PERIODS_NS[variant]},
        }
        for variant, kernel in KERNELS.items()
    ]
    skipped = {"id": "other", "status": "skipped", "kernels": [], "device": "GPU-1"}
    return {
        "schema": "mla-bench/1",
        "tool": {"commit": "0123456789abcdef", "dirty": False},
        "started_at": "2026-11-29T18:38:43Z",
        "finished_at": "2026-11-29T18:39:51Z",
        "ended_by_signal": 0,
        "devices": [
            {"uuid": "GPU-1", "name": "NVIDIA H200", "setup": {"driver": "580.159"}},
            {"uuid": "Some CPU", "name": "Some CPU"},
        ],
        "cells": [cells[0], skipped, *cells[1:]],
    }


class KernelDurations(harness.CliTest):
    def durations(self, made=None, table=SAMPLE):
        (self.folder / "a.json").write_text(json.dumps(document() if made is None else made))
        (self.folder / "ncu.csv").write_text(table)
        script = harness.ROOT / "scripts" / "kernel_durations"
        return subprocess.run(
            [sys.executable, script, "a.json", "ncu.csv"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    def refused(self, done, *names):
        self.ends(done, 2)
        self.assertRegex(done.stderr, r"\Akernel_durations: [^\n]+\n\Z")
        for name in names:
            self.assertIn(name, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_stands_beside_the_periods(self):
        done = self.durations()
        self.ends(done, 0)
        made = json.loads(done.stdout)
        self.assertEqual(made["gpu"], "NVIDIA H200")
        self.assertEqual(made["driver"], "580.159")
        self.assertEqual(made["date"], "2026-11-29T18:38:43Z")
        self.assertEqual(made["commit"], "0123456789abcdef")
        self.assertEqual(
            [(cell["variant"], cell["precision"], cell["l2"]) for cell in made["cells"]],
            [(variant, "fp32", "hot") for variant in KERNELS],
        )
        self.assertEqual([cell["problem"] for cell in made["cells"]], 3 * [SHAPE])
        self.assertEqual([cell["period_ns"] for cell in made["cells"]], list(PERIODS_NS.values()))
        self.assertEqual(
            [cell["kernels"] for cell in made["cells"]],
            [
                [{"name": "naive_kernel", "duration_ns": 453152}],
                [{"name": "tiled_kernel", "duration_ns": 8544}],
                [{"name": "cooperative_kernel", "duration_ns": 6720}],
            ],
        )

    def test_kernels_of_a_library_belong_to_one_cell(self):
        made = document()
        made["cells"] = made["cells"][:1]
        made["cells"][0]["kernels"] = [{"name": name} for name in KERNELS.values()]
        done = self.durations(made)
        self.ends(done, 0)
        [cell] = json.loads(done.stdout)["cells"]
        self.assertEqual([k["duration_ns"] for k in cell["kernels"]], [453152, 8544, 6720])

    def test_units(self):
        for unit, factor in (("nsecond", 1), ("us", 1e3), ("usecond", 1e3), ("ms", 1e6)):
            with self.subTest(unit=unit):
                done = self.durations(table=SAMPLE.replace('"ns"', f'"{unit}"'))
                self.ends(done, 0)
                kernel = json.loads(done.stdout)["cells"][2]["kernels"][0]
                self.assertEqual(kernel["duration_ns"], 6720 * factor)

    def test_faults_of_the_table(self):
        rows = SAMPLE.splitlines(keepends=True)
        self.refused(self.durations(table="".join(rows[:4])), "ncu.csv", "no table")
        self.refused(self.durations(table=SAMPLE.replace("gpu__time", "gpc__time")), "columns")
        self.refused(self.durations(table=SAMPLE.replace('"ns"', '"%"')), "'%'")
        self.refused(self.durations(table=SAMPLE.replace("8,544", "n/a")), "tiled_kernel", "'n/a'")
        self.refused(self.durations(table="".join(rows[:-1])), "cooperative_kernel", "no kernel")
        self.refused(self.durations(table="".join([*rows, rows[-1]])), "1 kernels more")
        self.refused(
            self.durations(table="".join([*rows[:-2], rows[-1], rows[-2]])),
            "tiled_kernel",
            "cooperative_kernel",
        )

    def test_faults_of_the_document(self):
        made = document()
        made["cells"][2]["status"] = "incorrect"
        self.refused(self.durations(made), made["cells"][2]["id"], "incorrect")
        made = document()
        made["cells"][0]["kernels"] = []
        self.refused(self.durations(made), made["cells"][0]["id"], "no kernels")
        made = document()
        made["cells"][0]["device"] = "GPU-2"
        self.refused(self.durations(made), "2 GPUs")
        self.refused(self.durations({**document(), "schema": "x/1"}), "x/1")
        self.refused(self.durations([]), "a.json")
        self.refused(self.durations({**document(), "finished_at": None}), "did not come to its end")


class Profile(harness.CliTest):
    """scripts/profile in a tree whose program, build scripts and profiler are stand-ins."""

    def executable(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def setUp(self):
        super().setUp()
        (self.folder / "periods.json").write_text(json.dumps(document()))
        (self.folder / "ncu.csv").write_text(SAMPLE)
        for script in ("build", "install_dependencies"):
            self.executable(f"scripts/{script}", "exit 0\n")
        for script in ("profile", "lib.sh", "kernel_durations", "documents.py"):
            shutil.copy(harness.ROOT / "scripts" / script, self.folder / "scripts")
        here = self.folder
        self.executable(
            "build/auto/bin/mla-bench",
            f'echo "run $*" >>{here}/log\n'
            "while [ $# -gt 0 ]; do\n"
            f'  [ "$1" != --json ] || cp {here}/periods.json "$2"\n'
            "  shift\n"
            "done\n",
        )
        self.executable(
            "bin/ncu",
            f'echo "ncu $*" >>{here}/log\n'
            "while [ $# -gt 0 ]; do\n"
            f'  [ "$1" != --log-file ] || cp {here}/ncu.csv "$2"\n'
            "  shift\n"
            f"done\n[ ! -e {here}/broken ]\n",
        )

    def profile(self, *arguments):
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            [self.folder / "scripts" / "profile", *arguments],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "MLA_BENCH_CUDA": "AUTO", "NCU_ARGS": "--extra"},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    def log(self):
        return (self.folder / "log").read_text().splitlines()

    def test_without_a_file_ncu_prints(self):
        self.ends(self.profile("--variant", "tiled"), 0)
        [line] = self.log()
        self.assertTrue(line.startswith("ncu --clock-control none --cache-control none"), line)
        self.assertIn(" --extra ", line)
        self.assertTrue(line.endswith("mla-bench run --profile --variant tiled"), line)

    def test_one_file_of_both(self):
        done = self.profile("--json", "out.json", "--", "--variant", "all", "--l2", "both")
        self.ends(done, 0)
        run, ncu = self.log()
        self.assertRegex(run, r"\Arun run --quiet --json \S+ --variant all --l2 both\Z")
        self.assertIn("--metrics gpu__time_duration.sum", ncu)
        self.assertTrue(ncu.endswith("run --profile --variant all --l2 both"), ncu)
        made = json.loads((self.folder / "out.json").read_text())
        self.assertEqual([cell["variant"] for cell in made["cells"]], list(KERNELS))

    def test_nothing_is_left_of_a_failure(self):
        (self.folder / "broken").touch()
        done = self.profile("--json", "out.json", "--variant", "all")
        self.ends(done, 2)
        self.assertIn("profile: ncu failed", done.stderr)
        (self.folder / "broken").unlink()
        (self.folder / "ncu.csv").write_text("==ERROR== No kernels were profiled.\n")
        self.ends(self.profile("--json", "out.json"), 2)
        self.assertFalse((self.folder / "out.json").exists())

    def test_a_file_that_cannot_be_written(self):
        for arguments in (["--json"], ["--json", "--variant"], ["--json", "no/where.json"]):
            with self.subTest(arguments=arguments):
                done = self.profile(*arguments)
                self.ends(done, 2)
                self.assertRegex(done.stderr, r"\Aprofile: --json [^\n]+\n\Z")
        self.assertFalse((self.folder / "log").exists())


if __name__ == "__main__":
    harness.main()
