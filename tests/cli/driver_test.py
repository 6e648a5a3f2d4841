"""A build with CUDA where there is no driver, and where the driver is older than the build."""

import os
import re

import harness
from harness import TINY

NOTHING_RAN = 77
QUICK = [*TINY, *("--threads 1 --variant naive --rounds 1 --warmup 0 --json a.json").split()]


class Driver(harness.CliTest):
    # The environment of the program there, and what it says of the driver.
    MACHINES = (
        (
            {
                "LD_PRELOAD": os.environ["MLA_BENCH_TEST_LIBC"],
                "MLA_BENCH_TEST_REFUSED_LIBRARIES": "libcuda.so",
            },
            r"no NVIDIA driver on this machine",
        ),
        (
            {"LD_LIBRARY_PATH": os.environ["MLA_BENCH_TEST_OLD_DRIVER_FOLDER"]},
            r"the driver \(CUDA 11\.4\) is too old for this build, which needs one for CUDA \d+\.\d+ or newer",
        ),
    )

    def test_a_gpu_that_was_asked_for(self):
        for variables, says in self.MACHINES:
            env = self.environment(**variables)
            for device in ("cuda:0", "cuda:all", "cpu,cuda:1"):
                done = self.run_program(*QUICK, "--device", device, env=env)
                self.ends_with_one_line(done, NOTHING_RAN, "--device cuda:", "--device cpu runs here")
                self.assertRegex(done.stderr, says)
                self.assertEqual(self.files(), [])

    def test_whatever_is_there(self):
        for variables, says in self.MACHINES:
            env = self.environment(**variables)
            done = self.run_program(*QUICK, env=env)
            self.ends(done, 0)
            warnings = [line for line in done.stderr.splitlines() if "no GPU" in line]
            self.assertEqual(len(warnings), 1, done.stderr)
            self.assertRegex(warnings[0], rf"no GPU \({says}\): running on the CPU")
            [cell] = self.document(self.folder / "a.json")["cells"]
            self.assertEqual(cell["backend"], "cpu")
            self.assertIn(cell["status"], harness.RIGHT)

    def test_list(self):
        for variables, says in self.MACHINES:
            env = self.environment(**variables)
            done = self.run_program("list", env=env)
            self.ends(done, 0)
            self.assertTrue(re.search(rf"\n  no GPU: {says}\n", done.stdout), done.stdout)


if __name__ == "__main__":
    harness.main()
