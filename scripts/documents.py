"""What the Python scripts beside this file share: documents, read, and times in words."""

import json
import math


class Fault(Exception):
    """A missing or unfit file, or an option that does not suit it, in one line."""


def read_json(path):
    """Of a UTF-8 file, as RFC 8259 has it: Python alone would take NaN and Infinity."""

    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except OSError as error:
        raise Fault(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Fault(f"{path} is no JSON file: {error}") from error


def read_document(path):
    """The document of a run that came to its end."""
    document = read_json(path)
    if not isinstance(document, dict) or "schema" not in document:
        raise Fault(f"{path} is no document of mla-bench: it names no schema")
    if document["schema"] != "mla-bench/1":
        raise Fault(f"{path} is of schema '{document['schema']}', not mla-bench/1")
    if document.get("finished_at") is None or document.get("ended_by_signal") != 0:
        raise Fault(f"{path} is of a run that did not come to its end")
    return document


def human_time(ns, resolution_ns):
    """To the digit that the passes resolve, as the tool's own table; 0: not known."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")):
        if ns >= size:
            break
    if resolution_ns <= 0:
        return f"{ns / size:.{1 if ns / size >= 100 else 2}f} {unit}"
    place = math.ceil(math.log10(resolution_ns) - 1e-9)
    digits = max(0, round(math.log10(size)) - place)
    return f"{round(ns / 10.0**place) * 10.0**place / size:.{digits}f} {unit}"
