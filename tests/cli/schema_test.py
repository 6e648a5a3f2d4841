"""results/schema.json takes the program's documents, and refuses what none may say."""

import copy
import pathlib
import unittest

import harness
from harness import BRIEF, TINY


def passed_cell(document):
    return next(cell for cell in document["cells"] if cell["status"] == "passed")


def skipped_cell(document):
    return next(cell for cell in document["cells"] if cell["status"] == "skipped")


def fail(cell, status="failed", reason="its process was ended by signal 9 (Killed)"):
    cell.update(status=status, reason=reason)
    del cell["summary"]


@unittest.skipUnless(harness.jsonschema, "no Python package jsonschema")
class Schema(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.ends(
            self.run_program(
                *BRIEF,
                *TINY[:2],
                *TINY[4:],
                "--seq",
                "8,100000000000",
                "--variant",
                "tiled",
                "--quiet",
                "--json",
                "a.json",
            ),
            0,
        )
        self.made = self.document(self.folder / "a.json")

    def changed(self, change):
        document = copy.deepcopy(self.made)
        change(document)
        return document

    def takes(self, change):
        self.assertEqual(harness.schema_errors(self.changed(change)), [])

    def refuses(self, change):
        document = self.changed(change)
        self.assertNotEqual(document, self.made, "the change changes nothing")
        self.assertNotEqual(harness.schema_errors(document), [])

    def test_is_a_schema(self):
        harness.jsonschema.Draft202012Validator.check_schema(harness.schema())

    def test_every_object_is_strict(self):
        def objects(schema, where=""):
            if isinstance(schema, dict):
                if schema.get("type") == "object":
                    yield where, schema
                for key, value in schema.items():
                    yield from objects(value, f"{where}/{key}")
            elif isinstance(schema, list):
                for i, value in enumerate(schema):
                    yield from objects(value, f"{where}/{i}")

        for where, found in objects(harness.schema()):
            with self.subTest(where=where):
                self.assertIs(found["additionalProperties"], False)
                self.assertLessEqual(set(found["required"]), set(found["properties"]))

    def test_kept_documents(self):
        results = pathlib.Path(harness.ROOT, "results")
        # All but what others wrote, which says of itself that it is something else.
        others = {results / "schema.json"}
        for folder in ("mutants", "ncu", "peers", "rates"):
            others.update(results.glob(f"*/{folder}/*.json"))
        for path in sorted(set(results.rglob("*.json")) - others):
            if results / "local" not in path.parents:
                with self.subTest(path=str(path)):
                    document = self.document(path)
                    self.assertIs(document["tool"]["dirty"], False)
                    self.assertIsNotNone(document["finished_at"])
                    self.assertEqual(document["ended_by_signal"], 0)

    def test_takes(self):
        self.takes(lambda d: d.update(finished_at=None))
        self.takes(lambda d: d.update(ended_by_signal=2))
        self.takes(lambda d: fail(passed_cell(d)))
        self.takes(lambda d: passed_cell(d).update(status="untrusted", reason="below the floor"))

    def test_refuses_at_the_top(self):
        for key in self.made:
            self.refuses(lambda d, key=key: d.pop(key))
        self.refuses(lambda d: d.update(extra=1))
        self.refuses(lambda d: d.update(schema="mla-bench/2"))
        self.refuses(lambda d: d.update(cells=[]))
        self.refuses(lambda d: d.update(devices=[]))
        self.refuses(lambda d: d.update(started_at="2026-11-29 16:03:00"))
        self.refuses(lambda d: d.update(ended_by_signal=9))
        self.refuses(lambda d: d.update(ended_by_signal=2, finished_at=None))

    def test_refuses_in_a_cell(self):
        for key in passed_cell(self.made):
            if key != "roofline":  # only where the device's ceilings are known
                self.refuses(lambda d, key=key: passed_cell(d).pop(key))
        for key in skipped_cell(self.made):
            self.refuses(lambda d, key=key: skipped_cell(d).pop(key))
        self.refuses(lambda d: passed_cell(d).update(l2="cold"))  # without its proof
        self.refuses(lambda d: passed_cell(d).update(extra=1))
        self.refuses(lambda d: passed_cell(d).update(id="tiled"))
        self.refuses(lambda d: passed_cell(d).update(variant="Tiled v2"))
        self.refuses(lambda d: passed_cell(d).update(precision="fp64"))
        self.refuses(lambda d: passed_cell(d)["problem"].update(seq=0))
        self.refuses(lambda d: passed_cell(d)["problem"].update(seq=8.5))
        self.refuses(lambda d: passed_cell(d)["problem"].update(seq="8"))
        self.refuses(lambda d: passed_cell(d).update(threads=0))
        # Only GPUs have company, and no company is none told.
        for uuids in (["GPU-1"], [], "GPU-1"):
            self.refuses(lambda d, uuids=uuids: passed_cell(d).update(concurrent_with=uuids))
        self.refuses(lambda d: passed_cell(d).update(inputs={"distribution": "normal"}))
        self.refuses(
            lambda d: passed_cell(d).update(
                inputs={"distribution": "normal", "seed": 0, "file": "a"}
            )
        )

    def test_company_of_a_gpu(self):
        def on_gpu(document, company):
            gpu = "GPU-6750905a-23f5-d4d2-6f98-a08ebac8ba1b"
            cell = passed_cell(document)
            cell.update(backend="cuda", device=gpu, threads=0, **company)
            cell["id"] = harness.id_of(cell)

        self.takes(lambda d: on_gpu(d, {}))
        self.takes(lambda d: on_gpu(d, {"concurrent_with": ["GPU-1", "MIG-2"]}))
        for uuids in ([], ["cuda:1"], ["GPU-1", "GPU-1"]):
            self.refuses(lambda d, uuids=uuids: on_gpu(d, {"concurrent_with": uuids}))

    def test_refuses_a_time_beside_a_wrong_answer(self):
        wrong = {
            "passed": False,
            "reason": "3 elements are beyond their bound",
            "wrong_elements": 3,
        }
        self.refuses(lambda d: passed_cell(d)["check"].update(wrong))
        self.refuses(lambda d: passed_cell(d)["recheck"].update(wrong))
        self.refuses(lambda d: passed_cell(d)["check"].update(wrong_elements=1))
        self.refuses(lambda d: passed_cell(d)["check"].update(max_error_over_bound=1.01))
        self.refuses(lambda d: passed_cell(d)["check"].update(max_error_over_bound=None))
        self.refuses(lambda d: passed_cell(d)["check"].update(passed=False))
        for status in ("failed", "incorrect", "skipped"):
            self.refuses(
                lambda d, status=status: passed_cell(d).update(status=status, reason="because")
            )
        self.refuses(
            lambda d: fail(passed_cell(d), status="incorrect")
        )  # though both checks passed

    def test_refuses_a_status_without_its_reason(self):
        self.refuses(lambda d: fail(passed_cell(d), reason=""))
        self.refuses(lambda d: skipped_cell(d).update(reason=""))
        self.refuses(lambda d: skipped_cell(d).update(reason="two\nlines"))
        self.refuses(lambda d: passed_cell(d).update(reason="none needed"))
        self.refuses(lambda d: passed_cell(d).update(status="untrusted"))

    def test_refuses_times_that_cannot_be(self):
        self.refuses(lambda d: passed_cell(d).update(rounds=[]))
        self.refuses(lambda d: passed_cell(d)["summary"].update(median_ns=0))
        self.refuses(lambda d: passed_cell(d)["summary"].update(median_ns="3.8"))
        self.refuses(lambda d: passed_cell(d)["summary"].update(mad_ns=-1))
        self.refuses(lambda d: passed_cell(d)["summary"].update(mad_ns=None))
        self.refuses(lambda d: passed_cell(d)["rounds"][0].update(samples_ns=[]))
        self.refuses(lambda d: passed_cell(d)["rounds"][0].update(long_ns=[0]))
        self.refuses(lambda d: passed_cell(d)["rounds"][0].update(long_launches=0))


if __name__ == "__main__":
    harness.main()
