"""Seeds, saved tensors and threads: the same inputs give the same bits."""

import json

import harness
from harness import BRIEF, TINY


def tensors(path):
    """A safetensors file as {name: (dtype, shape, bytes)}, by the format's description alone."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    return {
        name: (
            t["dtype"],
            t["shape"],
            data[begin + t["data_offsets"][0] : begin + t["data_offsets"][1]],
        )
        for name, t in header.items()
        if name != "__metadata__"
    }


class Seeds(harness.CliTest):
    def saved(self, name, *arguments):
        done = self.run_program(
            "--device",
            "cpu",
            "--warmup",
            "0",
            "--rounds",
            "1",
            "--quiet",
            "--json",
            name + ".json",
            "--save",
            name,
            *arguments
        )
        self.ends(done, 0)
        self.document(self.folder / (name + ".json"))
        return tensors(self.folder / name)

    def test_exact_inputs_give_every_variant_the_same_bits(self):
        shape = "--batch 2 --seq 33 --model-dim 70 --rank 13 --kv-heads 3 --head-dim 5".split()
        for precision in ("fp32", "bf16", "fp16"):
            with self.subTest(precision=precision):
                arguments = [
                    *shape,
                    "--threads",
                    "1",
                    "--precision",
                    precision,
                    "--inputs",
                    "exact",
                    "--seed",
                    "11",
                ]
                naive, tiled, cooperative = [
                    self.saved(variant, *arguments, "--variant", variant)
                    for variant in ("naive", "tiled", "cooperative")
                ]
                self.assertEqual(naive["kv"][1], [2, 2, 33, 3, 5])
                self.assertGreater(len(set(naive["kv"][2])), 8)
                self.assertEqual(naive, tiled)
                self.assertEqual(naive, cooperative)

    def test_another_seed_gives_other_tensors(self):
        for inputs in ("normal", "positive", "exact"):
            with self.subTest(inputs=inputs):
                arguments = [*TINY, "--variant", "naive", "--inputs", inputs, "--threads", "1"]
                one = self.saved("one", *arguments, "--seed", "1")
                self.assertEqual(one, self.saved("again", *arguments, "--seed", "1"))
                other = self.saved("other", *arguments, "--seed", str(2**64 - 1))
                for name, tensor in one.items():
                    self.assertEqual(tensor[:2], other[name][:2])
                    self.assertNotEqual(tensor[2], other[name][2], name)

    def test_threads_change_no_bits(self):
        for variant in ("naive", "tiled", "cooperative"):
            with self.subTest(variant=variant):
                arguments = [
                    "--variant",
                    variant,
                    "--seed",
                    "3",
                    "--seq",
                    "37",
                    "--model-dim",
                    "50",
                ]
                one = self.saved("one", *arguments, "--threads", "1")
                self.assertEqual(one, self.saved("two", *arguments, "--threads", "2"))

    def test_a_saved_file_is_the_same_run(self):
        saved = self.saved("saved", *TINY, "--variant", "tiled", "--precision", "bf16")
        read = self.saved("read", "--variant", "tiled", "--input", "saved")
        self.assertEqual(read, saved)
        [cell] = self.document(self.folder / "read.json")["cells"]
        self.assertEqual((cell["precision"], cell["inputs"]["file"]), ("bf16", "saved"))
        self.assertRegex(cell["inputs"]["content"], "^[0-9a-f]{16}$")

    def test_the_same_name_with_other_values_is_not_the_same_input(self):
        for name, seed in (("a", "1"), ("b", "2")):
            self.saved("saved", *TINY, "--variant", "tiled", "--seed", seed)
            done = self.run_program(
                *[*BRIEF, "--variant", "tiled", "--input", "saved", "--json", f"{name}.json"]
            )
            self.assertEqual(done.returncode, 0, done.stderr)
        compared = self.run_program("compare", "a.json", "b.json")
        self.assertEqual(compared.returncode, 5)
        self.assertIn("other inputs", compared.stdout + compared.stderr)
        # Of an older program, which does not tell.
        document = self.document(self.folder / "a.json")
        del document["cells"][0]["inputs"]["content"]
        document["started_at"] = "2026-11-29T16:03:00Z"
        (self.folder / "old.json").write_text(json.dumps(document), encoding="utf-8")
        compared = self.run_program("compare", "old.json", "a.json")
        self.assertEqual(compared.returncode, 0, compared.stderr)
        judged = self.run_program("gate", "--baseline", "a.json", "b.json")
        self.assertEqual(judged.returncode, 5)
        self.assertIn("saved holds other values: content ", judged.stdout)

    def test_a_file_with_nan_gives_nan_or_fails_and_never_passes_a_wrong_answer(self):
        path = self.folder / "inputs"
        self.saved("inputs", *TINY, "--variant", "naive")
        data = bytearray(path.read_bytes())
        begin = 8 + int.from_bytes(data[:8], "little")
        data[begin : begin + 4] = b"\0\0\xc0\x7f"  # NaN in hidden[0, 0, 0]
        path.write_bytes(data)
        done = self.run_program(
            *BRIEF, "--variant", "naive", "--input", "inputs", "--json", "a.json"
        )
        [cell] = self.document(self.folder / "a.json")["cells"]
        self.assertEqual(done.returncode, 0 if cell["status"] in harness.RIGHT else 3)


if __name__ == "__main__":
    harness.main()
