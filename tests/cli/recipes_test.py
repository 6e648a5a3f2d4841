"""The recipes of .github/ and .gitlab-ci.yml: what they call is there and takes what it is given, and
the script behind them is tried in a repository of its own, on the CPU."""

import os
import re
import shlex
import shutil
import subprocess
import unittest

import harness

try:
    import yaml
except ImportError:
    yaml = None

GITHUB = sorted((harness.ROOT / ".github" / "workflows").glob("*.yml"))
GITLAB = harness.ROOT / ".gitlab-ci.yml"
SCRIPTS = harness.ROOT / "scripts"


def commands():
    """Every shell text that a recipe runs, with the file that it stands in."""
    for path in GITHUB:
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            for step in job["steps"]:
                if "run" in step:
                    yield path.name, step["run"]
    for job in yaml.safe_load(GITLAB.read_text(encoding="utf-8")).values():
        for line in job["script"]:
            yield GITLAB.name, line


@unittest.skipUnless(yaml, "no Python package yaml")
class Recipes(harness.CliTest):
    def test_are_shell(self):
        found = list(commands())
        self.assertEqual(
            {name for name, _ in found},
            {"ci.yml", "gate-baseline.yml", "gate-gpu.yml", ".gitlab-ci.yml"},
        )
        for name, text in found:
            with self.subTest(name=name, text=text):
                checked = subprocess.run(
                    ["bash", "-n"], input=text, capture_output=True, text=True, check=False
                )
                self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_scripts_are_there(self):
        called = {
            word for _, text in commands() for word in re.findall(r"(?:scripts|\.ci)/\w+", text)
        }
        self.assertIn("scripts/gate_merge_base", called)
        for script in called:
            self.assertTrue(os.access(harness.ROOT / script, os.X_OK), script)

    def test_options_are_known(self):
        known = self.run_program("gate", "--help").stdout + self.run_program("--help").stdout
        gates = 0
        for name, text in commands():
            for line in text.splitlines():
                if re.match(r"scripts/(gate_merge_base|run) ", line):
                    gates += "gate" in line
                    for option in re.findall(r"--[a-z0-9-]+", line):
                        self.assertIn(f" {option} ", known, f"{name}: {line}")
        self.assertEqual(gates, 4)

    def test_a_new_baseline_is_measured_though_there_is_an_old_one(self):
        (text,) = [text for _, text in commands() if "--update" in text]
        (self.folder / "scripts").mkdir()
        stand_in = self.folder / "scripts" / "run"
        stand_in.write_text(
            "#!/bin/sh\nmkdir -p build/gate\n"
            'if test "$1" = gate; then cp "$BASELINE" judged; exit "${GATE:-0}"; fi\n'
            'for last; do :; done; echo new >"$last"\n'
        )
        stand_in.chmod(0o755)
        for gate, code in (("0", 0), ("5", 5)):
            (self.folder / "base.json").write_text("of another GPU\n")
            done = subprocess.run(
                ["bash", "-e", "-c", text],
                cwd=self.folder,
                env=self.environment(BASELINE="base.json", GATE=gate),
                check=False,
            )
            self.assertEqual(done.returncode, code)
            self.assertEqual((self.folder / "judged").read_text(), "new\n")

    def test_events_are_not_pasted_into_the_shell(self):
        for name, text in commands():
            self.assertNotIn("${{", text, name)

    def test_a_strangers_change_does_not_run_on_our_machines(self):
        for path in GITHUB:
            workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
            self.assertEqual(workflow["permissions"], {"contents": "read"})
            on = workflow[True]  # what YAML 1.1 makes of `on`
            for job in workflow["jobs"].values():
                if "self-hosted" in job["runs-on"] and "pull_request" in on:
                    self.assertIn("head.repo.full_name == github.repository", job["if"])


class MergeBase(harness.CliTest):
    """A repository whose scripts/build, in place of compiling, takes the program under test."""

    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        (self.tree / "scripts").mkdir(parents=True)
        for name in ("gate_merge_base", "lib.sh"):
            shutil.copy2(SCRIPTS / name, self.tree / "scripts" / name)
        self.script("install_dependencies", "exit 0")
        self.script(
            "build",
            f"""
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$root/build/$1/bin"
ln -sf {shlex.quote(harness.PROGRAM)} "$root/build/$1/bin/$2"
echo "built $(cat "$root/code")" >&2""",
        )
        (self.tree / ".gitignore").write_text("/build/\n")
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit("old")
        self.git("checkout", "--quiet", "-b", "change")

    def script(self, name, body):
        path = self.tree / "scripts" / name
        path.write_text(f"#!/bin/sh\nset -e\n{body}\n")
        path.chmod(0o755)

    def git(self, *words):
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words], cwd=self.tree, check=True, capture_output=True)

    def commit(self, code):
        (self.tree / "code").write_text(code)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", code)

    def gate(self, *words):
        environment = self.environment(MLA_BENCH_CUDA="OFF", GIT_CEILING_DIRECTORIES=str(self.folder))
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            environment.pop(name, None)
        return subprocess.run(
            [self.tree / "scripts" / "gate_merge_base", *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=250,
        )

    QUICK = [
        *harness.TINY,
        *("--variant naive --device cpu --threads 1 --warmup 0 --rounds 1").split(),
        # Whether the machine is calm today is not what is asked here.
        *("--processes 5 --threshold 1000 --no-confirm --quiet").split(),
    ]

    def test_builds_both_and_judges(self):
        self.commit("new")
        report = "gate/report.md"
        done = self.gate("main", *self.QUICK, "--output", report, "--keep", "gate/documents")
        self.ends(done, 0)
        self.assertEqual(done.stderr.split("\n")[:2], ["built old", "built new"])
        self.assertIn("| pass |", (self.folder / report).read_text(encoding="utf-8"))
        documents = sorted(path.name for path in (self.folder / "gate" / "documents").iterdir())
        self.assertEqual(len(documents), 10)
        # Again, when main has gone on and the older tree is there already.
        self.git("checkout", "--quiet", "main")
        self.commit("newer main")
        self.git("checkout", "--quiet", "change")
        self.git("merge", "--quiet", "-X", "ours", "main", "--message", "merge")
        done = self.gate("main", *self.QUICK)
        self.ends(done, 0)
        self.assertEqual(done.stderr.split("\n")[:1], ["built newer main"])

    def test_nothing_of_its_own(self):
        done = self.gate("main", *self.QUICK)
        self.ends(done, 0)
        self.assertRegex(done.stderr, r"\Agate_merge_base: 'main' has all of this tree[^\n]*\n\Z")
        (self.tree / "code").write_text("not committed")
        done = self.gate("main", *self.QUICK, "--rounds")
        self.ends(done, 2)  # it is judged, and the gate says what is wrong with its options
        self.assertIn("built not committed", done.stderr)
        self.assertIn("--rounds", done.stderr)

    def test_faults(self):
        for words, part in (
            ([], "usage: "),
            (["--variant", "naive"], "usage: "),
            (["no_such_branch"], "'no_such_branch'"),
        ):
            done = self.gate(*words)
            self.ends(done, 2)
            self.assertRegex(done.stderr, r"\Agate_merge_base: [^\n]+\n\Z")
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    harness.main()
