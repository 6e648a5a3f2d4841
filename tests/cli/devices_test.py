"""Hosts with several GPUs, which the CPU plays (tests/fake_gpus.cpp): devices go by UUID, one after
the other or at the same time."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import time

import harness

USAGE = 2
INCORRECT = 3
INCOMPARABLE = 5
NOTHING_RAN = 77

ONE, TWO, OLDER = (f"GPU-{digit * 8}-0000-0000-0000-000000000000" for digit in "123")
SHAPE = "--batch 1 --model-dim 16 --rank 4 --kv-heads 2 --head-dim 8 --warmup 0".split()


class DevicesCase(harness.CliTest):
    gpus = "11111111,22222222"

    def environment(self, **changes):
        return super().environment(
            **{
                "MLA_BENCH_TEST_GPUS": self.gpus,
                "XDG_CACHE_HOME": str(self.folder / "cache"),
                **changes,
            }
        )

    def measured(self, *arguments, name="a.json", code=0, seq="8", rounds=2, **variables):
        done = self.run_program(
            *SHAPE,
            *("--seq", seq, "--json", name),
            *(["--rounds", str(rounds)] if rounds else []),
            *arguments,
            env=self.environment(**variables),
        )
        self.ends(done, code)
        return self.document(self.folder / name), done

    def refused(self, *arguments, code=USAGE, names=(), **variables):
        with self.subTest(arguments=arguments):
            self.ends_with_one_line(
                self.run_program(*SHAPE, *arguments, env=self.environment(**variables)),
                code,
                *names,
            )
            self.assertEqual(self.files(), [])


class OneAfterTheOther(DevicesCase):
    def test_all_of_a_host_in_one_document(self):
        document, done = self.measured("--device", "cuda:all,cpu", "--variant", "naive")
        self.assertEqual(
            [(cell["backend"], cell["device"]) for cell in document["cells"][:2]],
            [("cuda", ONE), ("cuda", TWO)],
        )
        self.assertEqual([cell["backend"] for cell in document["cells"]], ["cuda", "cuda", "cpu"])
        for cell in document["cells"]:
            self.assertIn(cell["status"], harness.RIGHT)
            self.assertNotIn("concurrent_with", cell)
            self.assertNotIn("cuda:", cell["id"] + cell["command"])
        self.assertIn("Played GPU (GPU-11111111), ", done.stdout)
        self.assertIn("Played GPU (GPU-22222222), ", done.stdout)

    def test_a_list_is_in_the_users_order(self):
        document, _ = self.measured("--device", f"cuda:1,cpu,{ONE[:8]}", "--variant", "naive")
        self.assertEqual(
            [cell["device"] for cell in document["cells"] if cell["backend"] == "cuda"], [TWO, ONE]
        )

    def test_a_restart_may_count_otherwise(self):
        first, _ = self.measured("--device", "cuda:0", "--variant", "naive", name="first.json")
        turned = {"MLA_BENCH_TEST_GPUS": "22222222,11111111"}
        [cell] = first["cells"]
        self.assertEqual(cell["device"], ONE)
        # The command finds the same GPU, and the index another.
        words = shlex.split(cell["command"])[1:]
        again = self.run_program(*words, "--dry-run", env=self.environment(**turned))
        self.ends(again, 0)
        self.assertEqual(again.stdout.split(), [cell["id"]])
        second, _ = self.measured(
            "--device", "cuda:0", "--variant", "naive", name="second.json", **turned
        )
        self.assertEqual(second["cells"][0]["device"], TWO)
        third, _ = self.measured("--device", ONE, "--variant", "naive", name="third.json", **turned)
        self.assertEqual((third["cells"][0]["device"], third["cells"][0]["ordinal"]), (ONE, 1))
        # Calibrations are kept by UUID: the third run has the first one's.
        kept = {path.stem for path in (self.folder / "cache" / "mla-bench").iterdir()}
        self.assertEqual(kept, {ONE, TWO})
        calibrations = [
            next(d["calibration"] for d in document["devices"] if d["uuid"] == uuid)
            for document, uuid in ((first, ONE), (second, TWO), (third, ONE))
        ]
        self.assertEqual(calibrations[0], calibrations[2])
        self.assertNotEqual(calibrations[0]["memory_bytes_per_s"], calibrations[1]["memory_bytes_per_s"])
        # And so are columns.
        compared = self.run_program("compare", "first.json", "second.json", "third.json", "--format", "json")
        self.ends(compared, 0)
        devices = json.loads(compared.stdout)["devices"]
        self.assertEqual([device["uuid"] for device in devices], [ONE, TWO])
        # A gate's baseline too: the same index of another GPU is incomparable.
        gated = self.run_program("gate", "--baseline", "first.json", "second.json", "--format", "json")
        self.ends(gated, INCOMPARABLE)
        self.assertIn("UUID", gated.stdout)

    def test_list(self):
        done = self.run_program("list")
        self.ends(done, 0)
        for part in (f"cuda:0  Played GPU, sm_90", ONE, TWO, "\n  cpu  "):
            self.assertIn(part, done.stdout)
        self.assertEqual(done.stdout.count("Variants on Played GPU\n"), 1, "they can do the same")
        self.assertEqual(done.stdout.count("Variants on "), 2)
        one = self.run_program("list", "--device", "cuda:1")
        self.assertEqual(one.stdout.count("Variants on "), 1)


class Refused(DevicesCase):
    def test_a_device_named_twice(self):
        for devices, words in (
            ("cuda:0,cuda:0", ["as cuda:0 and as cuda:0"]),
            ("cuda:all,cuda:1", ["as cuda:all and as cuda:1"]),
            (f"cuda:1,{TWO}", [f"as cuda:1 and as {TWO}"]),
            ("cpu,cpu", ["the CPU twice"]),
        ):
            self.refused("--device", devices, names=["--device", "twice", *words])

    def test_a_device_that_is_not_here(self):
        self.refused(
            "--device", "cuda:0,cuda:2", code=NOTHING_RAN, names=["--device cuda:2", ONE, TWO]
        )
        self.refused("--device", OLDER, code=NOTHING_RAN, names=[f"--device {OLDER}", ONE, TWO])
        self.refused(
            "--device", "cuda:all", code=NOTHING_RAN, MLA_BENCH_TEST_GPUS="",
            names=["--device cuda:all", "no GPU is played", "--device cpu"],
        )
        self.refused("--device", "GPU-", names=["--device", "UUID"])
        self.refused(
            "--device", "GPU-1", MLA_BENCH_TEST_GPUS="11111111,12222222",
            names=["--device GPU-1", "cuda:0", "cuda:1", "more of the UUID"],
        )

    def test_company_of_one(self):
        self.refused("--device", "cuda:1", "--concurrent", names=["--concurrent", "one"])
        self.refused("--device", "cpu", "--concurrent", names=["--concurrent", "none"])
        self.refused(
            "--device", "cuda:all", "--concurrent", MLA_BENCH_TEST_GPUS="11111111",
            names=["--concurrent", "one"],
        )


class AtTheSameTime(DevicesCase):
    def switches(self, *arguments, **how):
        """How often the work went from one GPU to another, by what they said while at it."""
        (self.folder / "activity").unlink(missing_ok=True)
        document, _ = self.measured(
            "--device", "cuda:all", "--variant", "naive", *arguments,
            MLA_BENCH_TEST_ACTIVITY=str(self.folder / "activity"), **how,
        )
        lines = (self.folder / "activity").read_text().split()
        self.assertEqual(set(lines), {ONE, TWO})
        return document, sum(a != b for a, b in zip(lines, lines[1:]))

    def test_rounds_are_started_together(self):
        self.measured("--device", "cuda:all", "--variant", "naive")  # calibrates
        _, in_turn = self.switches()
        self.assertEqual(in_turn, 1)
        document, together = self.switches("--concurrent")
        self.assertGreaterEqual(together, 2 * 2, "in each of two rounds there and back")
        for cell, other in zip(document["cells"], (TWO, ONE), strict=True):
            self.assertIn(cell["status"], harness.RIGHT)
            self.assertEqual(cell["concurrent_with"], [other])
            self.assertEqual(len(cell["rounds"]), 2)
            again = self.run_program(*shlex.split(cell["command"])[1:], "--dry-run")
            self.ends(again, 0)
            self.assertEqual(
                sorted(again.stdout.split()), sorted(c["id"] for c in document["cells"])
            )

    def test_a_cpu_has_its_turn_alone(self):
        document, done = self.measured("--device", "cuda:all,cpu", "--variant", "naive", "--concurrent")
        self.assertEqual([c["backend"] for c in document["cells"]], ["cuda", "cuda", "cpu"])
        self.assertNotIn("concurrent_with", document["cells"][2])
        self.assertIn(document["cells"][2]["status"], harness.RIGHT)
        self.assertEqual(done.stdout.count("hot L2, 2 GPUs at once\n"), 2)

    def test_one_that_wants_a_round_brings_the_others_along(self):
        document, _ = self.measured(
            *("--device cuda:all --variant naive,twin --concurrent --l2 both").split(),
            *("--precision-target 0.0001 --time-budget 8").split(),
            seq="8,16",
            rounds=None,
        )
        rounds = {}
        for cell in document["cells"]:
            self.assertIn(cell["status"], harness.RIGHT, cell["reason"])
            name = cell["id"].replace(cell["device"], "")
            rounds.setdefault(name, []).append(len(cell["rounds"]))
        self.assertEqual(len(rounds), 2 * 2 * 2)
        for counts in rounds.values():
            self.assertEqual(len(counts), 2)
            self.assertEqual(*counts)

    def test_what_some_cannot_run_is_measured_alone(self):
        document, _ = self.measured(
            "--device", "cuda:all", "--variant", "naive,newer", "--concurrent",
            MLA_BENCH_TEST_GPUS="11111111,33333333",
        )
        cells = {(c["variant"], c["device"]): c for c in document["cells"]}
        self.assertEqual(cells["newer", OLDER]["status"], "skipped")
        self.assertIn(cells["newer", ONE]["status"], harness.RIGHT)
        self.assertNotIn("concurrent_with", cells["newer", ONE])
        self.assertEqual(cells["naive", ONE]["concurrent_with"], [OLDER])

    def test_whose_company_fails_is_not_trusted(self):
        for variant, status, rounds in (
            ("wrong_on_some", "incorrect", 2),
            ("dies_on_some", "failed", 30),
        ):
            with self.subTest(variant=variant):
                document, _ = self.measured(
                    *("--device", "cuda:all", "--variant", f"naive,{variant}", "--concurrent"),
                    rounds=rounds,
                    code=INCORRECT,
                )
                cells = {(c["variant"], c["device"]): c for c in document["cells"]}
                self.assertEqual(cells[variant, TWO]["status"], status)
                left = cells[variant, ONE]
                self.assertEqual(left["status"], "untrusted")
                self.assertIn(f"not measured at the same time as {TWO}", left["reason"])
                for uuid in (ONE, TWO):
                    self.assertIn(cells["naive", uuid]["status"], harness.RIGHT)

    def test_alone_and_at_once_are_not_mixed(self):
        self.measured("--device", "cuda:all", "--variant", "naive,twin", name="alone.json")
        self.measured(
            "--device", "cuda:all", "--variant", "naive,twin", "--concurrent", name="once.json"
        )
        for first, second in (("alone.json", "once.json"), ("once.json", "alone.json")):
            done = self.run_program("compare", first, second)
            self.ends(done, INCOMPARABLE)
            self.assertIn("other number of GPUs at once", done.stdout)
            for words in ("  alone", "  2 GPUs at once"):
                self.assertIn(words, done.stdout)
            gated = self.run_program("gate", "--baseline", first, second, "--format", "json")
            self.ends(gated, INCOMPARABLE)
            verdicts = {cell["verdict"] for cell in json.loads(gated.stdout)["cells"]}
            self.assertEqual(verdicts, {"missing", "new"})
        # Nor are two of one name, where a table shows both.
        rows = self.run_program("export", "alone.json", "once.json", "--to", "md").stdout.splitlines()
        devices = {line.split("|")[2].strip() for line in rows[2:]}
        self.assertEqual(
            devices,
            {
                f"Played GPU \\({uuid[:12]}\\){company}"
                for uuid in (ONE, TWO)
                for company in ("", ", 2 GPUs at once")
            },
        )
        verdicts = self.run_program("gate", "--baseline", "alone.json", "once.json").stdout
        for column in (" GPU ", " concurrent ", f" {ONE[:12]} ", f" {TWO[:12]} ", " 2 GPUs at once "):
            self.assertIn(column, verdicts)
        # Among themselves they are compared.
        once = self.run_program("compare", "once.json", "--reference", ONE)
        self.ends(once, 0)
        self.assertIn("2 GPUs at once", once.stdout.splitlines()[0])
        self.assertNotIn("alone", self.run_program("compare", "alone.json").stdout)

    def test_a_gate_measures_as_the_baseline_was(self):
        self.measured("--device", "cuda:all", "--variant", "naive", "--concurrent", name="base.json")
        gated = self.run_program(
            *("gate --baseline base.json --processes 2 --rounds 1 --warmup 0").split(),
            *("--no-confirm --keep kept --format json --allow-environment").split(),
        )
        verdicts = {cell["verdict"] for cell in json.loads(gated.stdout)["cells"]}
        self.assertFalse(verdicts & {"missing", "new", "incorrect", "skipped"}, gated.stdout)
        for path in (self.folder / "kept").iterdir():
            cells = self.document(path)["cells"]
            self.assertEqual([cell["concurrent_with"] for cell in cells], [[TWO], [ONE]])

    def test_interrupted(self):
        process = self.start(
            *SHAPE, *("--device cuda:all --concurrent --variant naive --rounds 500").split(),
            *("--time-budget 30 --json a.json").split(),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 30
        while len(workers := children.read_text().split()) < 2:
            self.assertLess(time.monotonic(), deadline, "two workers were never there")
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, stderr)
        self.assertEqual(self.document(self.folder / "a.json")["ended_by_signal"], signal.SIGINT)
        for worker in workers:
            self.assertFalse(os.path.exists(f"/proc/{worker}"))


if __name__ == "__main__":
    harness.main()
