"""However a run ends, it leaves a whole document or none, and no process."""

import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import harness
from harness import COLD_START, TINY

LONG = (
    "--device cpu --threads 1 --variant tiled,cooperative --warmup 0 --time-budget 30"
).split()


def children_of(pid):
    """The processes that a process started, by /proc; empty where it is gone."""
    try:
        return [
            int(child)
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def status_of(pid):
    """The fields of /proc/PID/stat behind the name; empty where the process is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_alive(pid):
    status = status_of(pid)
    return bool(status) and status[0] not in "ZX"


def processor_seconds(pid):
    status = status_of(pid)
    return sum(map(int, status[11:13])) / os.sysconf("SC_CLK_TCK") if status else 0


class Signals(harness.CliTest):
    def wait_for(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            self.assertLess(time.monotonic(), deadline, "waited in vain")
            time.sleep(0.005)
        return found

    def start_long_run(self, *arguments, rounds=500, json="a.json", **how):
        """A run in the middle of its rounds, and its worker."""
        process = self.start(
            *LONG,
            "--rounds",
            str(rounds),
            "--json",
            json,
            *arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **how,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        [worker] = self.wait_for(lambda: children_of(process.pid))
        # Its own time, not the clock's: the machine may be busy with other tests.
        self.wait_for(lambda: processor_seconds(worker) > 0.8)
        return process, worker

    def test_asked_to_end(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number.name):
                process, worker = self.start_long_run()
                process.send_signal(number)
                stdout, stderr = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 128 + number, stderr)
                self.assertIn("failed: interrupted", stdout)
                self.assertEqual(self.files(), ["a.json"])
                document = self.document(self.folder / "a.json")
                self.assertEqual(document["ended_by_signal"], number)
                self.assertIsNotNone(document["finished_at"])
                self.assertEqual(
                    [cell["status"] for cell in document["cells"]], ["failed", "failed"]
                )
                self.assertGreater(len(document["cells"][0]["rounds"]), 0)
                self.wait_for(lambda: not is_alive(worker))
                (self.folder / "a.json").unlink()

    def test_ctrl_c_reaches_the_whole_process_group(self):
        process, _ = self.start_long_run(start_new_session=True)
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, stderr)
        self.assertEqual(self.document(self.folder / "a.json")["ended_by_signal"], signal.SIGINT)

    def test_document_on_stdout_when_asked_to_end(self):
        process, _ = self.start_long_run(json="-")
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, stderr)
        self.assertEqual(self.document(stdout)["ended_by_signal"], signal.SIGTERM)

    def test_asked_to_end_at_any_moment(self):
        """Before, while and after the worker is started: a whole document or none."""
        for delay in (0.005, 0.01, 0.02, 0.04, 0.08, 0.16):
            with self.subTest(delay=delay):
                process = self.start(
                    *LONG,
                    *("--rounds 500 --json a.json").split(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                time.sleep(delay)
                process.send_signal(signal.SIGINT)
                _, stderr = process.communicate(timeout=30)
                # A signal before the program looks for it ends it in the system's way.
                self.assertIn(process.returncode, (128 + signal.SIGINT, -signal.SIGINT), stderr)
                self.assertLessEqual(len(stderr.splitlines()), 1, stderr)
                if self.files():
                    self.assertEqual(
                        self.document(self.folder / "a.json")["ended_by_signal"], signal.SIGINT
                    )
                    (self.folder / "a.json").unlink()

    def test_killed_before_or_after_the_first_document(self):
        order = random.Random(7)
        path = self.folder / "a.json"
        for _ in range(10):
            process = self.start_brief_cells(rounds=3)
            time.sleep(order.uniform(0, 0.1))
            workers = children_of(process.pid)
            process.kill()
            process.wait()
            for worker in workers:
                self.wait_for(lambda worker=worker: not is_alive(worker))
            if path.exists():
                self.document(path)
                path.unlink()

    def start_brief_cells(self, rounds):
        """A run whose document is written again every few milliseconds: each length is a group."""
        tiny = list(TINY)
        tiny[tiny.index("--seq") + 1] = ",".join(str(length) for length in range(1, 9))
        return self.start(
            *COLD_START,
            *tiny,
            "--variant",
            "naive",
            "--precision",
            "fp32,bf16,fp16",
            "--json",
            "a.json",
            "--rounds",
            str(rounds),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def test_a_hundred_kills_leave_a_hundred_whole_documents(self):
        kills = 100
        seed = int(os.environ.get("MLA_BENCH_KILL_SEED") or random.randrange(10**9))
        order = random.Random(seed)
        path = self.folder / "a.json"
        states = collections.Counter()
        for number in range(kills):
            with self.subTest(kill=number, MLA_BENCH_KILL_SEED=seed):
                process = self.start_brief_cells(rounds=1)
                self.wait_for(path.exists)
                time.sleep(order.uniform(0, 0.3))
                process.kill()
                process.wait()
                document = self.document(path)
                self.assertEqual(len(document["cells"]), 24)
                states["whole"] += 1
                timed = [cell for cell in document["cells"] if cell.get("summary")]
                states["in the middle"] += 0 < len(timed) < 24
                for cell in timed:  # what has a time was judged
                    self.assertIn("referee", cell)
                states["unfinished"] += document["finished_at"] is None
                for file in self.folder.iterdir():  # of a write that the kill cut short
                    states["cut short"] += file != path
                    file.unlink()
        print(f"{kills} kills from MLA_BENCH_KILL_SEED={seed}: {dict(states)}", file=sys.stderr)
        self.assertEqual(states["whole"], kills)
        self.assertGreater(states["in the middle"], 0, "no kill came in the middle of a run")

    def test_killed_worker_costs_its_cell_alone(self):
        process, worker = self.start_long_run(rounds=20)
        os.kill(worker, signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, stderr)
        document = self.document(self.folder / "a.json")
        failed = [cell for cell in document["cells"] if cell["status"] == "failed"]
        self.assertEqual(len(failed), 1)
        self.assertEqual(len(document["cells"]), 2)
        self.assertIn("ended by signal 9", failed[0]["reason"])
        self.assertIn(f"{failed[0]['variant']}: failed: ", stdout)
        self.assertEqual(document["ended_by_signal"], 0)

    def test_stopped_worker_is_given_up(self):
        process, worker = self.start_long_run("--timeout", "1", rounds=20)
        os.kill(worker, signal.SIGSTOP)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, stderr)
        reasons = [cell["reason"] for cell in self.document(self.folder / "a.json")["cells"]]
        self.assertEqual(sum("--timeout" in reason for reason in reasons), 1)
        self.assertFalse(is_alive(worker))


if __name__ == "__main__":
    harness.main()
