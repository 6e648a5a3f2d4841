#!/usr/bin/env python3
"""Judges the tool's safetensors files with the format's own package and NumPy.

  safetensors_judge.py write DIR     writes DIR/{f32,f16,bf16}.safetensors: inputs for the tool to read
  safetensors_judge.py check FILE    reads inputs and kv that the tool saved with --save; kv must be
                                     the product of the inputs in float64 within the stated bound

check takes --precision tf32 for F32 tensors that a tf32 variant made. Exits 0 if all is well, 1 with a
line that says what is not, 77 where numpy or safetensors are missing.
"""

import argparse
import json
import pathlib
import struct
import sys

try:
    import numpy as np
    import safetensors
    import safetensors.numpy
except ImportError as error:
    print(f"skipped: {error}; install numpy and safetensors to judge the tool's files")
    sys.exit(77)

# Of the inputs that `write` makes, small and without symmetry: a swapped pair of axes cannot pass.
BATCH, SEQ, MODEL_DIM, RANK, KV_HEADS, HEAD_DIM = 2, 5, 48, 12, 3, 4

ROUNDOFF = {"F32": 2.0**-24, "TF32": 2.0**-11, "BF16": 2.0**-8, "F16": 2.0**-11}
SMALLEST = {"F32": 2.0**-149, "BF16": 2.0**-133, "F16": 2.0**-24}


def bf16_bits(values):
    """float32 values rounded to nearest even as bfloat16, in uint16."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def as_float64(data, dtype, shape):
    """A tensor's bytes as float64."""
    if dtype == "BF16":
        values = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(data, {"F32": np.float32, "F16": np.float16}[dtype])
    return values.astype(np.float64).reshape(shape)


def write(directory):
    random = np.random.default_rng(1)
    columns = KV_HEADS * HEAD_DIM
    shapes = {
        "hidden": (BATCH, SEQ, MODEL_DIM),
        "w_down": (MODEL_DIM, RANK),
        "w_up_k": (RANK, columns),
        "w_up_v": (RANK, columns),
    }
    values = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    metadata = {"kv_heads": str(KV_HEADS)}
    directory.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(values, directory / "f32.safetensors", metadata)
    halves = {name: value.astype(np.float16) for name, value in values.items()}
    safetensors.numpy.save_file(halves, directory / "f16.safetensors", metadata)
    # NumPy has no bfloat16: its bits are saved as integers, and the header then calls them BF16.
    bits = {name: bf16_bits(value) for name, value in values.items()}
    content = relabelled(safetensors.numpy.save(bits, metadata), "BF16")
    safetensors.deserialize(content)  # still a file by the package's own rules
    (directory / "bf16.safetensors").write_bytes(content)


def header_of(content):
    """The header of a safetensors file and the offset of its data."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), 8 + length


def relabelled(content, dtype):
    """The same file with all tensors called `dtype`."""
    header, data_begin = header_of(content)
    for name, tensor in header.items():
        if name != "__metadata__":
            tensor["dtype"] = dtype
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + content[data_begin:]


def bound(dtype, precision, model_dim, rank, value, magnitude, up_sums):
    """What kernels may be off by: kernels on FMA units or tensor cores, see src/bounds.cpp."""
    u = ROUNDOFF["F32"]
    # A tensor core's sums lose up to 8 u a step of 4 products (TF32, three chains in 3xTF32), or
    # 12 u a step of 8 (16-bit); plain fp32 sums lose u a product.
    a_product = {"fp32": 3 * 8 / 4, "tf32": 8 / 4}.get(precision, 12 / 8) * u
    sums = a_product * (model_dim + rank + 16)  # of whole steps
    operands = {"fp32": 6 * 2.0**-22, "tf32": 4 * ROUNDOFF["TF32"]}.get(precision, ROUNDOFF[dtype])
    relative = (1 + sums) * (1 + operands) ** 2 - 1
    output = 0 if dtype == "F32" else ROUNDOFF[dtype]
    half = 0 if dtype == "F32" else SMALLEST[dtype] / 2
    absolute = (model_dim * SMALLEST["F32"] + half) * up_sums * (1 + relative)
    absolute = absolute + rank * SMALLEST["F32"] + half
    return relative * (1 + output) * magnitude + output * np.abs(value) + absolute


def check(path, precision):
    content = path.read_bytes()
    metadata = header_of(content)[0].get("__metadata__", {})
    raw = dict(safetensors.deserialize(content))
    dtype = raw["kv"]["dtype"]
    if any(tensor["dtype"] != dtype for tensor in raw.values()):
        return "tensors have different dtypes"
    tensors = {n: as_float64(bytes(t["data"]), dtype, t["shape"]) for n, t in raw.items()}
    if set(tensors) != {"hidden", "w_down", "w_up_k", "w_up_v", "kv"}:
        return f"unexpected tensors: {sorted(tensors)}"
    hidden, kv = tensors["hidden"], tensors["kv"]
    batch, seq, model_dim = hidden.shape
    rank, columns = tensors["w_up_k"].shape
    kv_heads = int(metadata.get("kv_heads", "0"))
    if kv.shape != (2, batch, seq, kv_heads, columns // max(kv_heads, 1)):
        return f"kv is {kv.shape} with kv_heads {kv_heads}, hidden {hidden.shape}, columns {columns}"

    default = {"F32": "fp32", "BF16": "bf16", "F16": "fp16"}[dtype]
    latent = hidden @ tensors["w_down"]
    latent_magnitude = np.abs(hidden) @ np.abs(tensors["w_down"])
    for half, name in enumerate(["w_up_k", "w_up_v"]):
        up = tensors[name]
        value = latent @ up
        magnitude = latent_magnitude @ np.abs(up)
        limit = bound(
            dtype, precision or default, model_dim, rank, value, magnitude, np.abs(up).sum(axis=0)
        )
        error = np.abs(kv[half].reshape(value.shape) - value)
        wrong = ~(error <= limit)  # a NaN is wrong
        if wrong.any():
            worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error / limit)), error.shape)
            return (
                f"{int(wrong.sum())} of {wrong.size} elements of {'kv'[half]} are beyond their bound, worst "
                f"{tuple(int(i) for i in worst)}: {kv[half].reshape(value.shape)[worst]}, expected "
                f"{value[worst]} +- {limit[worst]:.2g}"
            )
    print(f"{path}: kv {kv.shape} {dtype} is the product of its inputs")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("directory", type=pathlib.Path)
    checking = commands.add_parser("check")
    checking.add_argument("file", type=pathlib.Path)
    checking.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"])
    arguments = parser.parse_args()
    if arguments.command == "write":
        write(arguments.directory)
        return 0
    fault = check(arguments.file, arguments.precision)
    if fault:
        print(f"{arguments.file}: {fault}", file=sys.stderr)
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
