"""Nothing around a run changes it: neither the locale nor Google Benchmark's variables."""

import subprocess

import harness
from harness import BRIEF, TINY


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
        locales = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
        commas = [
            name
            for name in locales
            if name.lower().replace("-", "") in ("de_de.utf8", "fr_fr.utf8")
        ]
        if not commas:
            self.skipTest("no locale with a decimal comma is installed")
        document, done = self.measured("a.json", LC_ALL=commas[0])
        self.assertRegex(done.stdout, r"naive +\d+\.\d+ ")
        self.assertIsInstance(document["cells"][0]["summary"]["median_ns"], float)
        refused = self.run_program("--time-budget", "0,5", env=self.environment(LC_ALL=commas[0]))
        self.ends_with_one_line(refused, 2, "--time-budget")

    def test_unknown_locale(self):
        self.measured("a.json", LC_ALL="xx_YY.UTF-8")

    def test_almost_no_environment(self):
        done = self.run_program(
            *BRIEF, *TINY, "--variant", "naive", "--json", "-", env={"NOTHING": "1"}
        )
        self.ends(done, 0)
        self.document(done.stdout)


if __name__ == "__main__":
    harness.main()
