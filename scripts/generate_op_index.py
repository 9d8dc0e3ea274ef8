"""Writes runtime/sparkflow_runtime/ops/index.py, the index from ops to modules; or checks it.

PYTHONPATH=runtime:. python scripts/generate_op_index.py           # rewrites the file
PYTHONPATH=runtime:. python scripts/generate_op_index.py --check   # exits with 1 if not so
"""

import argparse
import importlib
import pkgutil
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from types import FrameType

from sparkflow_runtime import ops
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op

INDEX = Path(ops.__file__).with_name("index.py")
HEAD = '''"""Where the ops are. Made by `scripts/generate_op_index.py`."""

from collections.abc import Mapping
from typing import Final

MODULES: Final[Mapping[str, str]] = {
'''
FOOT = '''}
"""Per module in this package the types of its ops."""
'''


def main() -> None:
    """Writes or checks the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = index()
    if not parser.parse_args().check:
        INDEX.write_text(text)
    elif INDEX.read_text() != text:
        sys.exit("the index of ops is out of date: run scripts/generate_op_index.py")


def index() -> str:
    """The whole file."""
    found: dict[str, list[str]] = defaultdict(list)
    enter = registry._enter

    def entered(op: Op) -> None:
        enter(op)
        found[_importing()].append(op.op_type)

    registry._enter = entered
    already = {op.op_type for op in registry.imported_ops()}
    assert not already, f"imported before anything was asked for: {sorted(already)}"
    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        if module.name != f"{ops.__name__}.all":
            importlib.import_module(module.name)
    lines = []
    for name in sorted(found):
        parts = textwrap.wrap(" ".join(sorted(found[name])), 86)
        literals = "\n".join(f'"{part} "' for part in parts[:-1]) + f'\n"{parts[-1]}"'
        lines.append(f'"{name}": ({literals}),\n')
    return _formatted(HEAD + "".join(lines) + FOOT)


def _importing() -> str:
    """The module of ops that is being imported, the innermost one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name == "<module>" and name.startswith(f"{ops.__name__}."):
            return name.removeprefix(f"{ops.__name__}.")
        frame = frame.f_back
    raise AssertionError("an op that no module of ops registers")


def _formatted(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "format", "--quiet", "--stdin-filename", "index.py", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
