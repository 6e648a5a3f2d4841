"""The safetensors package's files are read, and saved kv is what NumPy computes in float64."""

import subprocess
import sys

import harness
from harness import BRIEF

JUDGE = harness.ROOT / "tests" / "safetensors_judge.py"


class Safetensors(harness.CliTest):
    def judge(self, *arguments):
        """Runs the judge, which knows NumPy and the package but nothing of the tool."""
        done = subprocess.run(
            [sys.executable, JUDGE, *arguments], cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode == harness.SKIPPED:
            self.skipTest(done.stderr.strip() or done.stdout.strip())
        self.ends(done, 0)

    def test_files_of_the_package(self):
        self.judge("write", str(self.folder))
        written = self.files()
        self.assertGreaterEqual(len(written), 3)
        for name in written:
            for variant in ("naive", "tiled", "cooperative"):
                with self.subTest(file=name, variant=variant):
                    done = self.run_program(
                        *BRIEF,
                        "--variant",
                        variant,
                        "--input",
                        name,
                        "--save",
                        "out.safetensors",
                        "--json",
                        "out.json"
                    )
                    self.ends(done, 0)
                    self.assertEqual(
                        self.document(self.folder / "out.json")["cells"][0]["inputs"]["file"],
                        name,
                    )
                    self.judge("check", str(self.folder / "out.safetensors"))

    def test_generated_tensors(self):
        self.judge("write", str(self.folder))  # skips where the packages are missing
        for precision in ("fp32", "bf16", "fp16"):
            for inputs in ("normal", "positive", "exact"):
                with self.subTest(precision=precision, inputs=inputs):
                    done = self.run_program(
                        *BRIEF,
                        "--variant",
                        "cooperative",
                        "--precision",
                        precision,
                        "--inputs",
                        inputs,
                        "--save",
                        "out.safetensors",
                        "--quiet",
                        "--json",
                        "out.json"
                    )
                    self.ends(done, 0)
                    self.judge("check", str(self.folder / "out.safetensors"))


if __name__ == "__main__":
    harness.main()
