"""Bad input ends with one line that names what is at fault, and leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import unittest

import harness
from harness import BRIEF, COLD_START, TINY

USAGE = 2
NOTHING_RAN = 77
KEPT = str(harness.ROOT / "results" / "h200" / "2026-11-29T183726-fe9e9e3b95.json")


class Usage(harness.CliTest):
    def refused(self, *arguments, names):
        done = self.run_program(*arguments)
        with self.subTest(arguments=arguments):
            self.ends_with_one_line(done, USAGE, *names)
            self.assertEqual(self.files(), [])

    def test_unknown_names(self):
        self.refused("--varaint", "tiled", names=["'--varaint'", "--variant"])
        self.refused("--seq=96", "--no-such-thing", names=["'--no-such-thing'", "--help"])
        self.refused("-x", names=["-x"])
        self.refused("--variant", "tild", names=["variant", "'tild'", "did you mean tiled"])
        self.refused("--variant", "zzzzzzzz", names=["variant", "'zzzzzzzz'", "valid: ", "naive"])
        self.refused("--reference", "tild", names=["'tild'", "tiled"])
        self.refused("--precision", "fp23", names=["--precision", "'fp23'", "fp32"])
        self.refused("--precision", "fp32,fp64", names=["--precision", "'fp64'"])
        self.refused("--device", "gpu", names=["--device", "'gpu'", "cuda:N"])
        self.refused("--device", "cuda:-1", names=["--device", "cuda:-1"])
        self.refused("--device", "cuda:99999999999999999999", names=["--device"])
        self.refused("--l2", "warm", names=["--l2", "'warm'", "cold"])
        self.refused("--inputs", "gauss", names=["--inputs", "'gauss'", "normal"])
        self.refused("rnu", names=["command", "'rnu'", "run"])
        self.refused("run", "tiled", names=["'tiled'"])
        self.refused("list", "--seq", "5", names=["'--seq'"])
        self.refused("worker", names=["worker"])
        self.refused("worker", "1", names=["worker"])

    def test_sizes(self):
        for option in ("--batch", "--seq", "--model-dim", "--rank", "--kv-heads", "--head-dim"):
            for bad in (
                "0",
                "-1",
                "96x",
                "1e3",
                "9.5",
                "abc",
                " 96",
                "9223372036854775808",
                "0x60",
            ):
                self.refused(option, bad, "--device", "cpu", names=[option, bad])
        self.refused("--seq", "96,,192", names=["--seq", "empty"])
        self.refused("--seq", "96,", names=["--seq", "empty"])
        self.refused("--seq=", names=["--seq"])
        self.refused("--seq", names=["--seq"])

    def test_repeated_options(self):
        self.refused("--seq", "96", "--seq", "192", names=["--seq is given twice", "--seq 96,192"])
        self.refused("--json", "a.json", "--json", "b.json", names=["--json is given twice"])

    def test_sizes_whose_product_overflows(self):
        large = str(2**62)
        self.refused("--device", "cpu", "--seq", large, names=["--seq", "2^63"])
        self.refused("--device", "cpu", "--batch", large, "--model-dim", large, names=["--batch"])
        self.refused("--device", "cpu", "--rank", large, "--dry-run", names=["--rank"])

    def test_numbers(self):
        self.refused("--seed", "-1", names=["--seed", "'-1'"])
        self.refused("--seed", str(2**64), names=["--seed"])
        self.refused("--rounds", "0", names=["--rounds", "'0'"])
        self.refused("--threads", "0", names=["--threads", "'0'"])
        self.refused("--threads", "1,2", names=["--threads", "'1,2'"])
        for option in ("--time-budget", "--warmup", "--timeout"):
            for bad in ("-1", "nan", "inf", "1s", "0,5", "1e99"):
                self.refused(option, bad, names=[option, bad])
        self.refused("--time-budget", "0", names=["--time-budget", "'0'"])
        self.refused("--precision-target", "5", names=["--precision-target", "'5'"])

    def test_missing_values(self):
        self.refused("--json", names=["--json"])
        self.refused("--json", "--quiet", names=["--json", "--quiet"])
        self.refused("--json=", names=["--json"])
        self.refused("--variant", names=["--variant"])
        self.refused("--variant=", names=["--variant"])
        self.refused("--quiet=maybe", names=["quiet"])

    def test_control_characters_are_not_passed_on(self):
        self.refused("--variant", "\x1b[31mred\nline", names=["\\x1b", "\\x0a"])
        self.refused("--\x1b[31mred", names=["\\x1b"])

    def test_combinations(self):
        self.refused(
            "--device",
            "cpu",
            "--variant",
            "naive,tiled",
            "--save",
            "a.safetensors",
            names=["--save"],
        )
        self.refused("--input", "a.safetensors", "--seed", "3", names=["--input", "--seed"])
        self.refused("--inputs", "normal,exact", names=["--inputs"])


class Files(harness.CliTest):
    def test_input(self):
        for name in ("missing.safetensors", ".", "/dev/null"):
            with self.subTest(name=name):
                self.ends_with_one_line(
                    self.run_program(*BRIEF, "--input", name), USAGE, f"'{name}'"
                )
                self.assertEqual(self.files(), [])
        broken = {
            "empty": b"",
            "text": b"hello, this is no tensor file",
            "long": b"\xff" * 64,
            "no_tensors": b"\x08\0\0\0\0\0\0\0{}      ",
            "deep": (100000).to_bytes(8, "little") + b"[" * 100000,
        }
        for name, data in broken.items():
            with self.subTest(name=name):
                (self.folder / name).write_bytes(data)
                self.ends_with_one_line(
                    self.run_program(*BRIEF, "--input", name), USAGE, f"'{name}'"
                )
                self.assertEqual(self.files(), [name])
                (self.folder / name).unlink()

    @unittest.skipIf(os.geteuid() == 0, "root can read everything")
    def test_unreadable_input(self):
        path = self.folder / "a.safetensors"
        path.touch(mode=0)
        self.ends_with_one_line(
            self.run_program(*BRIEF, "--input", path.name), USAGE, path.name, "ermission"
        )

    def test_input_and_shape(self):
        self.ends(
            self.run_program(
                *BRIEF,
                *TINY,
                "--variant",
                "naive",
                "--save",
                "a.safetensors",
                "--quiet",
                "--json",
                "a.json",
            ),
            0,
        )
        for arguments, names in (
            (["--seq", "9"], ["--seq", "--input"]),
            (["--kv-heads", "3"], ["--kv-heads", "3"]),
            (["--head-dim", "5"], ["--head-dim", "5"]),
            (["--kv-heads", "1,2"], ["--kv-heads", "--input"]),
        ):
            with self.subTest(arguments=arguments):
                done = self.run_program(
                    *BRIEF, "--input", "a.safetensors", "--json", "b.json", *arguments
                )
                self.ends_with_one_line(done, USAGE, *names)
        self.assertEqual(self.files(), ["a.json", "a.safetensors"])

    def test_files_that_would_be_lost(self):
        quick = [*BRIEF, "--variant", "naive", "--quiet"]
        self.ends(self.run_program(*quick, *TINY, "--save", "t", "--json", "a.json"), 0)
        (self.folder / "folder").mkdir()
        (self.folder / "folder" / "link").symlink_to("../t")
        os.link(self.folder / "a.json", self.folder / "hard.json")
        (self.folder / "here").symlink_to(".")
        before = {name: (self.folder / name).read_bytes() for name in self.files()}
        for words, names in (
            ([*quick, "--input", "t", "--json", "folder/link"], ["--json", "--input 't'"]),
            ([*quick, *TINY, "--save", "new", "--json", "here/new"], ["--json", "--save"]),
            (["export", "a.json", "--to", "csv", "--output", "hard.json"], ["--output", "'a.json'"]),
            (["gate", "--baseline", "here/a.json", "--output", "a.json"], ["--output", "--baseline"]),
            (
                ["selftest", "--input", "t", "--output", str(self.folder / "t")],
                ["--output", "--input 't'"],
            ),
        ):
            with self.subTest(words=words):
                self.ends_with_one_line(self.run_program(*words), USAGE, *names, "name another")
                self.assertEqual(
                    {name: (self.folder / name).read_bytes() for name in self.files()}, before
                )
        # Read before it is written.
        self.ends(
            self.run_program(*quick, "--input", "t", "--save", "here/t", "--json", "a.json"), 0
        )

    def test_document_that_cannot_be_written(self):
        (self.folder / "folder").mkdir()
        (self.folder / "file").touch()
        os.mkfifo(self.folder / "pipe")
        before = self.files()
        for path in ("folder", "file/a.json", "/proc/no/such/a.json", "pipe"):
            with self.subTest(path=path):
                done = self.run_program(*BRIEF, *TINY, "--variant", "naive", "--json", path)
                self.ends_with_one_line(done, USAGE, path)
                self.assertEqual(self.files(), before)

    def test_the_file_that_stdout_goes_to(self):
        self.ends(
            self.run_program(*BRIEF, *TINY, "--variant", "naive", "--json", "document.json"), 0
        )
        for command in (
            "mla-bench export document.json --to bmf --output /dev/stdout",
            "mla-bench export document.json --to bmf --output log",
            "mla-bench --device cpu --variant naive --json /proc/self/fd/1",
        ):
            with self.subTest(command=command):
                done = self.run_shell(f"{{ echo before; {command}; echo $?; }} >log")
                self.ends_with_one_line(done, 0, "stdout", "give -")
                self.assertEqual((self.folder / "log").read_text(), f"before\n{USAGE}\n")

    def test_links_that_lead_nowhere(self):
        (self.folder / "loop").symlink_to("loop")
        os.mkfifo(self.folder / "pipe")
        (self.folder / "to_pipe").symlink_to("pipe")
        before = self.files()
        for option in ("--save", "--json"):
            for path, why in (("loop", "links"), ("to_pipe", "no regular file")):
                with self.subTest(option=option, path=path):
                    quick = [*BRIEF, *TINY, "--variant", "naive", option, path]
                    quick += ["--json", "a.json"] if option == "--save" else []
                    self.ends_with_one_line(self.run_program(*quick), USAGE, path, why)
                    self.assertEqual(self.files(), before)
        # What is not there yet is made where the link leads.
        (self.folder / "dangling").symlink_to("made.json")
        self.ends(self.run_program(*BRIEF, *TINY, "--variant", "naive", "--json", "dangling"), 0)
        self.assertTrue((self.folder / "dangling").is_symlink())
        self.document(self.folder / "made.json")

    def test_tensors_go_where_a_link_leads(self):
        (self.folder / "there").mkdir()
        (self.folder / "there" / "t").write_text("old")
        (self.folder / "link").symlink_to("there/t")
        for option in ("--save", "--json"):
            self.ends(
                self.run_program(
                    *[*BRIEF, *TINY, "--variant", "naive", "--json", "a.json", option, "link"]
                    if option == "--save"
                    else [*BRIEF, *TINY, "--variant", "naive", option, "link"]
                ),
                0,
            )
            self.assertTrue((self.folder / "link").is_symlink())
            self.assertNotEqual((self.folder / "there" / "t").read_text(errors="replace"), "old")
            (self.folder / "there" / "t").write_text("old")

    def test_a_limit_on_the_size_of_files(self):
        done = self.run_shell(
            "ulimit -f 2; mla-bench --device cpu --variant naive --batch 1 --seq 4 --rounds 9 "
            "--warmup 0 --quiet --json a.json"
        )
        self.ends_with_one_line(done, USAGE, "a.json")
        self.assertEqual(self.files(), [])

    def test_unwritable_folder(self):
        (self.folder / "locked").mkdir(mode=0o555)
        self.folder.chmod(0o755)
        # Root can write everywhere: somebody else is asked.
        who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}

        def run(*words):
            return subprocess.run(
                [harness.PROGRAM, *words],
                cwd=self.folder,
                env=self.environment(HOME="/"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                **who,
            )

        try:
            run("--version")
        except PermissionError:
            self.skipTest("the program is where others cannot run it")
        quick = [*BRIEF, *TINY, "--variant", "naive"]
        for words in (
            [*quick, "--json", "locked/a.json"],
            [*quick, "--json", "locked/new/a.json"],
            [*quick, "--json", "-", "--save", "locked/a.safetensors"],
            ["export", KEPT, "--to", "csv", "--output", "locked/a.csv"],
        ):
            with self.subTest(words=words):
                path = next(word for word in words if word.startswith("locked/"))
                self.ends_with_one_line(run(*words), USAGE, path, "ermission")

    def on_a_small_disk(self, size, *words):
        """Run on a file system of so many bytes, which goes with its process; its files are left in
        the folder `saved`."""
        for name in ("disk", "saved"):
            (self.folder / name).mkdir(exist_ok=True)
        script = (
            f"mount -t tmpfs -o size={size} tmpfs disk || exit 99; cd disk; "
            '"$@"; code=$?; cp -a . ../saved; exit $code'
        )
        done = subprocess.run(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", harness.PROGRAM, *words],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode == 99 or "unshare" in done.stderr:
            self.skipTest("no file system can be mounted here")
        return done

    @unittest.skipUnless(shutil.which("unshare"), "no unshare")
    def test_full_disk(self):
        quick = [*BRIEF, *TINY, "--variant", "naive"]
        full = "No space left"
        # Not even the plan fits.
        long = [word if word != "8" else "8,9,10,11" for word in quick]
        done = self.on_a_small_disk("4k", *long, "--json", "a.json")
        self.ends_with_one_line(done, USAGE, "'a.json'", full)
        self.assertEqual(self.files(), [])
        # The plan fits, what was measured does not: the former is left, whole.
        done = self.on_a_small_disk(
            "16k", *COLD_START, *TINY, *("--variant naive --rounds 9 --json a.json").split()
        )
        self.ends_with_one_line(done, USAGE, "'a.json'", full)
        self.assertEqual(self.files(), ["saved/a.json"])
        self.assertIsNone(self.document(self.folder / "saved" / "a.json")["finished_at"])
        (self.folder / "saved" / "a.json").unlink()
        shape = "--batch 1 --seq 64 --model-dim 32 --rank 4 --kv-heads 2 --head-dim 8".split()
        for words, path in (
            ([*BRIEF, *shape, "--variant", "naive", "--json", "-", "--save", "a.safetensors"], "a.safetensors"),
            (["export", KEPT, "--to", "csv", "--output", "a.csv"], "a.csv"),
        ):
            with self.subTest(path=path):
                done = self.on_a_small_disk("4k", *words)
                self.ends_with_one_line(done, USAGE, f"'{path}'", full)
                self.assertEqual(self.files(), [])

    def test_tensors_that_cannot_be_saved(self):
        for path in (".", "no/such/folder/a.safetensors"):
            with self.subTest(path=path):
                done = self.run_program(
                    *BRIEF, *TINY, "--variant", "naive", "--save", path, "--json", "a.json"
                )
                self.ends_with_one_line(done, USAGE, path)
                self.assertEqual(self.files(), [])

    def test_names_that_are_not_utf8(self):
        name = os.fsdecode(b"gr\xf6\xdfe.safetensors")
        for option in ("--save", "--input"):
            with self.subTest(option=option):
                shape = TINY if option == "--save" else []
                done = self.run_program(
                    *BRIEF, *shape, "--variant", "naive", option, name, "--json", "a.json"
                )
                self.ends_with_one_line(done, USAGE, option, "UTF-8")
                self.assertEqual(self.files(), [])
        self.ends(self.run_program(*BRIEF, *TINY, "--variant", "naive", "--json", name), 0)


    def test_lists_without_end(self):
        many = ",".join(map(str, range(1, 20001)))
        done = self.run_program("--seq", many, "--batch", many, "--dry-run", timeout=20)
        self.ends_with_one_line(done, USAGE, "--seq", "100000 cells")

    def test_fewer_threads_than_asked_for(self):
        limited = self.environment(OMP_THREAD_LIMIT="1")
        quick = ["--device", "cpu", "--rounds", "1", "--warmup", "0", *TINY, "--variant", "naive"]
        quick += ["--json", "a.json"]
        done = self.run_program(*quick, "--threads", "2", env=limited)
        self.ends_with_one_line(done, USAGE, "--threads 2", "OMP_THREAD_LIMIT")
        self.ends(self.run_program(*quick, env=limited), 0)
        self.assertEqual(self.document(self.folder / "a.json")["cells"][0]["threads"], 1)


class Stdout(harness.CliTest):
    def test_full(self):
        for arguments in (
            ["--help"],
            ["--version"],
            ["list"],
            [*BRIEF, *TINY, "--variant", "naive", "--dry-run"],
            [*BRIEF, *TINY, "--variant", "naive", "--json", "-", "--quiet"],
            [*BRIEF, *TINY, "--variant", "naive", "--json", "a.json"],
        ):
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                self.ends_with_one_line(
                    self.run_program(*arguments, stdout=full), USAGE, "stdout", "space"
                )
        self.document(self.folder / "a.json")

    def test_closed_by_its_reader(self):
        for arguments in (
            ["--help"],
            ["list"],
            [*BRIEF, *TINY, "--variant", "naive", "--json", "-", "--quiet"],
        ):
            reading, writing = os.pipe()
            os.close(reading)
            with self.subTest(arguments=arguments), os.fdopen(writing, "w") as broken:
                done = self.run_program(*arguments, stdout=broken)
                if done.returncode != -signal.SIGPIPE:
                    self.ends_with_one_line(done, USAGE, "stdout")
        done = self.run_shell("mla-bench --help | head -c 1")
        self.ends(done, 0)
        self.assertEqual((len(done.stdout), done.stderr), (1, ""))

    def test_never_opened(self):
        quick = " ".join([*BRIEF, *TINY, "--variant", "naive", "--json a.json"])
        for closed in ("<&-", "2>&-", "<&- 2>&-"):
            with self.subTest(closed=closed):
                done = self.run_shell(f"mla-bench {quick} {closed}")
                self.ends(done, 0)
                self.assertIn("  naive ", done.stdout)
                self.document(self.folder / "a.json")
        for closed in (">&-", "<&- >&-"):
            with self.subTest(closed=closed):
                self.ends_with_one_line(
                    self.run_shell(f"mla-bench {quick} {closed}"), USAGE, "stdout"
                )
                self.document(self.folder / "a.json")


class CannotRun(harness.CliTest):
    def test_memory_that_does_not_fit(self):
        done = self.run_program(
            "--device",
            "cpu",
            "--variant",
            "tiled",
            "--seq",
            "100000000",
            "--model-dim",
            "100000",
            "--json",
            "a.json",
            timeout=10,
        )
        self.ends(done, NOTHING_RAN)
        self.assertRegex(
            done.stdout, r"tiled: skipped: needs [0-9.]+ TiB of host memory, [0-9.]+ .iB are free"
        )
        [cell] = self.document(self.folder / "a.json")["cells"]
        self.assertEqual((cell["status"], cell["rounds"]), ("skipped", []))

    def test_force_does_not_force_memory(self):
        done = self.run_program(
            "--device",
            "cpu",
            "--variant",
            "tiled",
            "--seq",
            "100000000",
            "--model-dim",
            "100000",
            "--force",
            "--quiet",
            "--json",
            "a.json",
            timeout=10,
        )
        self.ends(done, NOTHING_RAN)

    def test_time_that_does_not_fit(self):
        shape = (
            "--batch 1 --seq 4096 --model-dim 7168 --rank 512 --kv-heads 128 --head-dim 128".split()
        )
        done = self.run_program(
            "--device", "cpu", "--variant", "naive", *shape, "--json", "a.json", timeout=10
        )
        self.ends(done, NOTHING_RAN)
        self.assertRegex(done.stdout, r"naive: skipped: predicted to take .*--force")
        self.document(self.folder / "a.json")

    def test_no_gpu(self):
        if self.has_gpu():
            self.skipTest("this machine has a GPU")
        for device in ("cuda:0", "cuda:all", "cpu,cuda:1"):
            with self.subTest(device=device):
                done = self.run_program("--device", device, "--variant", "tiled")
                self.ends_with_one_line(done, NOTHING_RAN, "--device cuda:")
                self.assertEqual(self.files(), [])

    def test_variants_without_a_gpu(self):
        listed = self.run_program("list").stdout
        if self.has_gpu():
            self.skipTest("this machine has a GPU")
        self.assertRegex(listed, r"\nVariants on CUDA: [^\n]*no [^\n]*\n(.*\n)*  tensor_core\b")
        for words in ([], ["--device", "cpu"]):
            with self.subTest(words=words):
                done = self.run_program(*words, "--variant", "tensor_core")
                self.ends_with_one_line(done, NOTHING_RAN, "--variant tensor_core", "tiled")
                self.assertNotIn("--device", done.stderr)
                self.assertEqual(self.files(), [])
        done = self.run_program(*BRIEF, *TINY, "--variant", "tiled,tensor_core", "--json", "a.json")
        self.ends(done, 0)
        self.assertIn("--variant tensor_core is left out", done.stderr)
        self.assertEqual(
            [c["variant"] for c in self.document(self.folder / "a.json")["cells"]], ["tiled"]
        )


if __name__ == "__main__":
    harness.main()
