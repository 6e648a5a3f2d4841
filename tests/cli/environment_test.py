"""Nothing around a run changes it: neither the locale nor Google Benchmark's variables."""

import csv
import fcntl
import io
import os
import pty
import shlex
import shutil
import struct
import subprocess
import termios

import harness
from harness import BRIEF, COLD_START, TINY


class Environment(harness.CliTest):
    def measured(self, name, **variables):
        arguments = [*BRIEF, *TINY, "--variant", "naive", "--json", name]
        done = self.run_program(*arguments, env=self.environment(**variables))
        self.ends(done, 0)
        document = self.document(self.folder / name)
        self.assertIn(document["cells"][0]["status"], harness.RIGHT)
        return document, done

    def test_google_benchmark_variables(self):
        plain, _ = self.measured("plain.json")
        changed, _ = self.measured(
            "changed.json",
            BENCHMARK_FILTER="nothing",
            BENCHMARK_REPETITIONS="7",
            BENCHMARK_MIN_TIME="5",
            BENCHMARK_FORMAT="csv",
            BENCHMARK_OUT="out.csv",
            BENCHMARK_OUT_FORMAT="csv",
            BENCHMARK_LIST_TESTS="true",
            BENCHMARK_DRY_RUN="true",
            BENCHMARK_ENABLE_RANDOM_INTERLEAVING="true",
            BENCHMARK_REPORT_AGGREGATES_ONLY="true",
        )
        samples = [
            len(document["cells"][0]["rounds"][0]["samples_ns"]) for document in (plain, changed)
        ]
        self.assertEqual(samples[0], samples[1])
        self.assertEqual(self.files(), ["changed.json", "plain.json"])

    def test_decimal_comma(self):
        if not shutil.which("localedef"):
            self.skipTest("no localedef to make a locale with a decimal comma")
        # Made here, since few machines have one installed.
        made = subprocess.run(
            ["localedef", "-i", "de_DE", "-f", "UTF-8", str(self.folder / "de_DE.UTF-8")],
            capture_output=True,
            check=False,
        )
        comma = {"LOCPATH": str(self.folder), "LC_ALL": "de_DE.UTF-8"}
        shown = subprocess.run(
            ["locale", "decimal_point"], env={**os.environ, **comma}, capture_output=True, text=True
        ).stdout
        if shown.strip() != ",":
            self.skipTest(f"localedef made no locale with a decimal comma: {made.stderr}")
        document, done = self.measured("a.json", **comma)
        self.assertRegex(done.stdout, r"naive +\d+\.\d+ ")
        self.assertIsInstance(document["cells"][0]["summary"]["median_ns"], float)
        refused = self.run_program("--time-budget", "0,5", env=self.environment(**comma))
        self.ends_with_one_line(refused, 2, "--time-budget")
        exported = self.run_program("export", "a.json", "--to", "csv", env=self.environment(**comma))
        self.ends(exported, 0)
        [row] = csv.DictReader(io.StringIO(exported.stdout, newline=""))
        self.assertEqual(float(row["median_ns"]), document["cells"][0]["summary"]["median_ns"])

    def test_unknown_locale(self):
        self.measured("a.json", LC_ALL="xx_YY.UTF-8")

    def test_almost_no_environment(self):
        done = self.run_program(
            *BRIEF, *TINY, "--variant", "naive", "--json", "-", env={"NOTHING": "1"}
        )
        self.ends(done, 0)
        self.document(done.stdout)


class Terminal(harness.CliTest):
    def on_a_terminal(self, columns):
        """What a run shows on a terminal so wide, and what it prints elsewhere."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.start(
            *COLD_START, *TINY, *("--variant naive,tiled --rounds 2 --json a.json").split(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # how a terminal says that nobody is left
            pass
        os.close(ours)
        printed = process.communicate(timeout=60)[0].decode()
        self.assertEqual(process.returncode, 0)
        return shown.decode(), printed

    def test_progress_takes_itself_back_whatever_the_width(self):
        for columns in (1, 2, 20, 80, 500):
            with self.subTest(columns=columns):
                shown, printed = self.on_a_terminal(columns)
                progress, _, notes = shown.rpartition("\r\x1b[K")
                lines = progress.split("\r\x1b[K")
                self.assertGreater(len(lines), 5)
                for line in lines:  # one that reaches the last column may wrap
                    self.assertLess(len(line), max(columns, 1), line)
                    self.assertNotIn("\n", line)
                self.assertNotIn("\x1b", printed + notes)
                self.assertIn("wrote a.json", notes)
        self.assertTrue(any("round 2 of naive" in line for line in lines))

    def test_no_progress_where_there_is_no_terminal(self):
        done = self.run_program(*BRIEF, *TINY, "--variant", "naive", "--json", "a.json")
        self.ends(done, 0)
        self.assertNotRegex(done.stdout + done.stderr, r"[\r\x1b]")


class Neighbours(harness.CliTest):
    def test_two_runs_write_one_document(self):
        """The last one's is left, whole; nobody waits and nothing else is left."""
        words = [*COLD_START, *TINY, *("--variant naive,tiled --rounds 2 --quiet --json a.json").split()]
        runs = [self.start(*words, "--seed", str(seed)) for seed in (1, 2, 3)]
        self.assertEqual([run.wait(timeout=60) for run in runs], [0, 0, 0])
        document = self.document(self.folder / "a.json")
        self.assertIsNotNone(document["finished_at"])
        self.assertEqual(len({cell["inputs"]["seed"] for cell in document["cells"]}), 1)
        self.assertEqual(self.files(), ["a.json"])

    def test_a_document_that_another_program_holds(self):
        with open(self.folder / "a.json", "w+", encoding="utf-8") as held:
            held.write("theirs")
            held.flush()
            fcntl.flock(held, fcntl.LOCK_EX)
            done = self.run_program(
                *BRIEF, *TINY, "--variant", "naive", "--quiet", "--json", "a.json"
            )
            self.ends(done, 0)
            # Replaced, not written into: who holds the old one still reads it.
            held.seek(0)
            self.assertEqual(held.read(), "theirs")
        self.document(self.folder / "a.json")


class Paths(harness.CliTest):
    def test_names_beyond_ascii(self):
        """Whatever the locale, names come out as they went in."""
        folder, name = "größe", "模型 🙂"
        quick = [*BRIEF, *TINY, "--variant", "naive"]
        for locale in ("C", "C.UTF-8"):
            with self.subTest(locale=locale):
                env = self.environment(LC_ALL=locale)
                document, tensors, table = (
                    f"{folder}/{locale}/{name}.{kind}" for kind in ("json", "safetensors", "csv")
                )
                (self.folder / tensors).parent.mkdir(parents=True)
                done = self.run_program(*quick, "--json", document, "--save", tensors, env=env)
                self.ends_with(done, document)
                again = self.run_program(
                    *BRIEF, "--variant", "naive", "--kv-heads", "2", "--input", tensors, "--json",
                    document, env=env,
                )
                self.ends_with(again, document)
                [cell] = self.document(self.folder / document)["cells"]
                self.assertEqual(cell["inputs"]["file"], tensors)
                words = shlex.split(cell["command"])[1:]
                self.assertIn(tensors, words)
                self.ends(self.run_program(*words, "--dry-run", env=env), 0)
                written = self.run_program(
                    "export", document, "--to", "csv", "--output", table, env=env
                )
                self.ends(written, 0)
                self.assertIn(tensors, self.run_program("compare", document, env=env).stdout)
                self.assertEqual(self.files(), sorted([document, tensors, table]))
                shutil.rmtree(self.folder / folder)

    def ends_with(self, done, document):
        self.ends(done, 0)
        self.assertIn(f"wrote {document}\n", done.stderr)


if __name__ == "__main__":
    harness.main()
