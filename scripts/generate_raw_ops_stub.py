"""Writes sparkflow/raw_ops.pyi, for type checkers, from the registry; or checks it.

PYTHONPATH=runtime:. python scripts/generate_raw_ops_stub.py           # rewrites the file
PYTHONPATH=runtime:. python scripts/generate_raw_ops_stub.py --check   # exits with 1 if not so
"""

import argparse
import inspect
import sys
from pathlib import Path

from sparkflow import raw_ops
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op

STUB = Path(__file__).parents[1] / "sparkflow" / "raw_ops.pyi"
HEAD = '''"""Made by `scripts/generate_raw_ops_stub.py`; `raw_ops.py` makes the functions."""

from typing import Any as _Any  # there is an op of that name

from sparkflow_runtime.ops.op import Op

def op_types() -> list[str]: ...
def parameters(op: Op) -> list[str]: ...
'''


def main() -> None:
    """Writes or checks the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = stub()
    if not parser.parse_args().check:
        STUB.write_text(text)
    elif STUB.read_text() != text:
        sys.exit("sparkflow/raw_ops.pyi is out of date: run scripts/generate_raw_ops_stub.py")


def stub() -> str:
    """The whole file."""
    ops = [op for op in registry.all_ops() if type(op).__module__.startswith("sparkflow_runtime")]
    return HEAD + "".join(line(op) for op in ops if not op.op_type.startswith("_"))


def line(op: Op) -> str:
    """One function."""
    parameters = inspect.signature(getattr(raw_ops, op.op_type)).parameters.values()
    shown = [
        f"{each.name}: _Any" + (" = ..." if each.default is not each.empty else "")
        for each in parameters
    ]
    return f"def {op.op_type}(*, {', '.join(shown)}) -> _Any: ...\n"


if __name__ == "__main__":
    main()
