"""What a run says of a machine that misbehaves: GPUs that the CPU plays (tests/fake_gpus.cpp), told of
by a management library that is played too (tests/fake_nvml.cpp), or by none; memory that is short;
a calendar clock that is set while it runs (tests/unfriendly_libc.cpp)."""

import datetime
import os
import resource
import shutil
import subprocess
import tempfile

import harness

INCONCLUSIVE = 4
UNFIT = 6
NOTHING_RAN = 77

GPU = "GPU-11111111-0000-0000-0000-000000000000"
SHAPE = "--batch 1 --model-dim 16 --rank 4 --kv-heads 2 --head-dim 8 --warmup 0".split()
DAY = 24 * 3600


class MachineCase(harness.CliTest):
    def environment(self, **changes):
        return super().environment(
            **{
                "MLA_BENCH_TEST_GPUS": "11111111",
                "XDG_CACHE_HOME": str(self.folder / "cache"),
                **changes,
            }
        )

    def measured(self, *arguments, code=0, rounds=2, **variables):
        done = self.run_program(
            *SHAPE, *("--seq 8 --device cuda:0 --variant naive --json a.json").split(),
            *("--rounds", str(rounds)), *arguments,
            env=self.environment(**variables),
        )
        self.ends(done, code)
        return self.document(self.folder / "a.json"), done


class Management(MachineCase):
    """What NVML tells, or does not."""

    UNWATCHED = "nobody watched for throttling and other processes in 1 cell: "

    @classmethod
    def setUpClass(cls):
        # All of the same GPU, which is calibrated once.
        cls.cache = tempfile.mkdtemp(prefix="mla-bench-cli-cache-")
        cls.addClassCleanup(shutil.rmtree, cls.cache)

    def environment(self, **changes):
        return super().environment(**{"XDG_CACHE_HOME": self.cache, **changes})

    def told(self, words, *arguments, **how):
        variables = {
            "LD_LIBRARY_PATH": os.environ["MLA_BENCH_TEST_NVML_FOLDER"],
            "MLA_BENCH_TEST_NVML": words,
        }
        document, done = self.measured(*arguments, **variables, **how)
        [cell] = document["cells"]
        [setup] = [d.get("setup") for d in document["devices"] if d["uuid"] == GPU]
        return cell, setup, done

    def untrusted(self, words, *reasons):
        with self.subTest(words=words):
            cell, _, done = self.told(words)
            self.assertEqual(cell["status"], "untrusted")
            for reason in reasons:
                self.assertIn(reason, cell["reason"])
                self.assertIn(reason, done.stdout)

    def test_all_is_well(self):
        cell, setup, done = self.told("")
        self.assertIn(cell["status"], harness.RIGHT)
        self.assertNotIn("process", cell["reason"])
        self.assertEqual((setup["driver"], setup["mig"]), ("999.1", False))
        self.assertEqual(cell["rounds"][0]["before"]["sm_clock_mhz"], 1980)
        self.assertNotIn("nobody watched", done.stderr)

    def test_no_nvml(self):
        for variables in (
            {
                "LD_PRELOAD": os.environ["MLA_BENCH_TEST_LIBC"],
                "MLA_BENCH_TEST_REFUSED_LIBRARIES": "libnvidia-ml",
            },
            # There, but its driver is not the one that is loaded.
            {
                "LD_LIBRARY_PATH": os.environ["MLA_BENCH_TEST_NVML_FOLDER"],
                "MLA_BENCH_TEST_NVML": "old",
            },
        ):
            with self.subTest(variables=variables):
                document, done = self.measured(**variables)
                [cell] = document["cells"]
                self.assertIn(cell["status"], harness.RIGHT)
                for measured in cell["rounds"]:
                    self.assertNotIn("before", measured)
                self.assertFalse([d for d in document["devices"] if "setup" in d])
                self.assertIn(self.UNWATCHED, done.stderr)
                self.assertIn("libnvidia-ml.so.1", done.stderr)

    def test_another_process(self):
        self.untrusted("processes=2", "1 other process on the GPU")
        self.untrusted("processes=100", "99 other processes on the GPU")
        self.told("processes=2", "--strict", code=INCONCLUSIVE)
        # Not even this one: NVML sees none, as in some containers, and tells nothing of neighbours.
        cell, _, _ = self.told("processes=0")
        self.assertNotIn("other_processes", cell["rounds"][0]["before"])

    def test_a_gate_does_not_judge_on_a_shared_gpu(self):
        names = {"": ["calm.json", "calmer.json"], "processes=2": ["shared.json", "other.json"]}
        for words, files in names.items():
            for name in files:
                self.told(words)
                (self.folder / "a.json").rename(self.folder / name)
        gated = self.run_program("gate", "--baseline", ",".join(names[""]), *names["processes=2"])
        self.ends(gated, UNFIT)
        self.assertIn("untrusted: 1 other process on the GPU", gated.stdout)

    def test_throttled(self):
        self.untrusted("throttle=0x40", "lowered clock (thermal slowdown by hardware)")
        self.untrusted("throttle=0x88", "lowered clock (slowdown by hardware, power brake)")

    def test_the_clock_changes(self):
        self.untrusted(
            "clocks=1980,1980,1500,1500", "the SM clock moved between 1500 and 1980 MHz"
        )

    def test_a_slice(self):
        cell, setup, done = self.told("slice")
        self.assertIn(cell["status"], harness.RIGHT)
        self.assertIs(setup["mig"], True)
        # Its clock is the whole GPU's, its neighbours are those in the slice.
        self.assertEqual(cell["rounds"][0]["before"]["sm_clock_mhz"], 1980)
        self.assertNotIn("nobody watched", done.stderr)
        self.untrusted("slice processes=2", "1 other process on the GPU")


class CalendarClock(MachineCase):
    def stepped(self, seconds):
        document, _ = self.measured(
            LD_PRELOAD=os.environ["MLA_BENCH_TEST_LIBC"], MLA_BENCH_TEST_CLOCK_STEP=str(seconds)
        )
        return document

    def test_set_while_a_run_is_at_it(self):
        for step in (-DAY, DAY):
            with self.subTest(step=step):
                document = self.stepped(step)
                started, finished = (
                    datetime.datetime.fromisoformat(document[name].rstrip("Z"))
                    for name in ("started_at", "finished_at")
                )
                passed = (finished - started).total_seconds()
                self.assertGreater(passed / step, 0.9, "the clock was not set")
                [cell] = document["cells"]
                self.assertIn(cell["status"], harness.RIGHT)
                for measured in cell["rounds"]:
                    for sample in measured["samples_ns"]:
                        self.assertTrue(0 < sample < 1e9, sample)

    def test_what_was_kept_is_neither_of_the_future_nor_old(self):
        def calibrated_at(document):
            [calibration] = [d["calibration"] for d in document["devices"] if d["uuid"] == GPU]
            return calibration["measured_at"]

        kept, _ = self.measured()
        soon = self.stepped(60)
        self.assertEqual(calibrated_at(soon), kept["started_at"])
        for step in (-DAY, 2 * DAY):
            with self.subTest(step=step):
                document = self.stepped(step)
                self.assertEqual(calibrated_at(document), document["started_at"])


class HostMemory(MachineCase):
    def limited(self, seq):
        """A run that may have so much address space, as `ulimit -v` grants it."""
        limit = 128 << 20
        return subprocess.run(
            [
                harness.PROGRAM, *("--device cpu --threads 1 --variant naive --rounds 1 --json a.json").split(),
                *SHAPE, "--seq", str(seq), "--quiet",
            ],
            cwd=self.folder,
            env=self.environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_what_fits_runs(self):
        self.ends(self.limited(8), 0)
        [cell] = self.document(self.folder / "a.json")["cells"]
        self.assertIn(cell["status"], harness.RIGHT)

    def test_what_does_not_fit_is_refused_before_it_is_tried(self):
        self.ends(self.limited(1_000_000), NOTHING_RAN)
        [cell] = self.document(self.folder / "a.json")["cells"]
        self.assertEqual(cell["status"], "skipped")
        self.assertRegex(
            cell["reason"], r"^needs \d\S* .iB of host memory, \d+\.\d+ MiB are free$"
        )


if __name__ == "__main__":
    harness.main()
