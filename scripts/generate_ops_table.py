"""Writes docs/ops.md, the table of operations, from the registry; or checks that it is up to date.

    PYTHONPATH=runtime:. python scripts/generate_ops_table.py           # rewrites docs/ops.md
    PYTHONPATH=runtime:. python scripts/generate_ops_table.py --check   # exits with 1 if it differs

What differs from TensorFlow, and why, is said here in DIFFERENCES: the registry cannot know it.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from sparkflow.differentiation import gradient_registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops import (
    all as _all_ops,  # noqa: F401  (registers every op)
    registry,
)
from sparkflow_runtime.ops.op import Op, not_differentiable

TABLE = Path(__file__).parents[1] / "docs" / "ops.md"

DIFFERENCES = {
    "family random": "Numbers come from numpy's generators, not from TensorFlow's Philox: the same "
    "distributions and seeds that repeat, other numbers.",
    "family candidate_sampling": "As for random ops: the same distributions, other draws.",
    "family control_flow": "A last output of our own, `tape`, carries what gradients read of the "
    "forward run. Iterations run one after another.",
    "family tensor_list": "Some attributes are ours (`_write_once`).",
    "family unicode_strings": "Rows of strings give a RaggedTensor, higher ranks are refused; "
    "encodings are Python's.",
    "CumulativeLogsumexp": "The gradient follows Cumsum's rules; TensorFlow's differs for empty "
    "exclusive sums.",
    "Print": "Python's writing of numbers, so the last digit may differ.",
}
OURS = "Ours: a stock TensorFlow cannot import a graph that has it."
NOTES = """# Operations

Made by `scripts/generate_ops_table.py` from the registry: {count} op types. Names, attributes and
defaults are TensorFlow's, so that graphs go both ways; what is our own is marked.

- **CPU, GPU**: the dtypes a kernel takes for the op's type attributes; "any" when it looks at none.
  bfloat16 kernels compute in float32 and round once. GPU kernels are written with cupy and were not
  run on a GPU yet (no machine with one was at hand); what only numpy or SciPy can do has no GPU
  kernel.
- Groups of dtypes: "floating" float16, float32, float64, bfloat16; "integer" signed and unsigned
  ones, 8 to 64 bits; "real" both; "complex" complex64 and complex128; "numeric" all of these;
  "plain" also bool; "quantized" qint8 to qint32 and the unsigned two; "all" everything and strings.
- **Gradient**: "yes" where there is one, built of other ops of the table, so that second-order
  gradients follow from theirs; "stops" where none flows by definition; "—" where `tf.gradients`
  raises LookupError.
"""


def main() -> None:
    """Writes or checks the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = table()
    if not parser.parse_args().check:
        TABLE.write_text(text)
    elif TABLE.read_text() != text:
        sys.exit("docs/ops.md is out of date: run scripts/generate_ops_table.py")


def table() -> str:
    """The whole page."""
    families: dict[str, list[Op]] = defaultdict(list)
    ops = [op for op in registry.all_ops() if type(op).__module__.startswith("sparkflow_runtime")]
    for op in ops:
        families[type(op).__module__.rpartition(".")[2]].append(op)
    pages = [NOTES.format(count=len(ops))]
    for family, members in sorted(families.items()):
        pages.append(f"## {family.replace('_', ' ')}\n")
        note = DIFFERENCES.get(f"family {family}")
        if note:
            pages.append(f"{note}\n")
        pages.append(
            "| op | CPU | GPU | gradient | differs from TensorFlow |\n|---|---|---|---|---|"
        )
        pages.extend(row(op) for op in sorted(members, key=lambda op: op.op_type))
        pages.append("")
    return "\n".join(pages)


def row(op: Op) -> str:
    """One op."""
    difference = DIFFERENCES.get(op.op_type, "")
    is_internal = op.op_type.startswith("_") and op.op_type not in ("_Arg", "_Retval")
    if is_internal or op.is_ours:
        difference = OURS
    cells = [f"`{op.op_type}`", kernel(op, "CPU"), kernel(op, "GPU"), gradient(op), difference]
    return f"| {' | '.join(cells)} |"


def kernel(op: Op, device: str) -> str:
    """The dtypes of a device's kernel."""
    if device not in op.kernels:
        return "—"
    accepted = op.kernels[device]
    if accepted is not None:
        return short(frozenset(accepted))
    types = {name: attr.allowed for name, attr in op.attrs.items() if attr.kind == "type"}
    for name in ("T", "dtype", "out_type", *types):
        if types.get(name):
            return short(types[name])
    return "any"


def short(group: frozenset[DType]) -> str:
    """A set of dtypes in few words."""
    parts, rest = [], set(group)
    named = (
        ("all", dtypes.ALL),
        ("plain", dtypes.PLAIN),
        ("numeric", dtypes.NUMERIC),
        ("real", dtypes.REAL),
        ("floating", dtypes.FLOATING),
        ("integer", dtypes.INTEGER),
        ("complex", dtypes.COMPLEX),
        ("quantized", dtypes.QUANTIZED),
    )
    for name, members in named:
        if members <= rest:
            parts.append(name)
            rest -= members
    parts += sorted(dtype.name for dtype in rest)
    return ", ".join(parts)


def gradient(op: Op) -> str:
    """Whether gradients flow through."""
    if op.op_type in gradient_registry._OURS:
        return "yes"
    found = type(op).gradient
    if found is None:
        return "—"
    return "stops" if found is not_differentiable else "yes"


if __name__ == "__main__":
    main()
