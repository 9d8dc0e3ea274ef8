"""Fuzzes one target with atheris, in a process of its own; started by `run.py`.

python fuzz/one.py FAMILY TARGET SLOWER [libFuzzer's arguments]
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import atheris

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "tests")]

from oracle import FAMILIES, check  # noqa: E402  (after the paths)


def main() -> None:
    """Goes on until libFuzzer's time is up, or the first finding."""
    family, name, slower, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=list(FAMILIES[family])):
        targets = importlib.import_module(f"targets.{family}").TARGETS
    target = next(each for each in targets if each.name == name)
    atheris.Setup([sys.argv[0], *arguments], lambda data: check(target, data, float(slower)))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
