"""Lists public names other than TensorFlow's, or checks that the list is up to date.

    python scripts/generate_public_api.py           # rewrites tests/contracts/public_api.txt
    python scripts/generate_public_api.py --check   # writes nothing; exits with 1 if it differs

A line is a name with its parameters; each parameter of a class has a line, which also represents
the getter and setter of an estimator. Removing a line is a change to which the rules in
docs/compatibility.md apply. TensorFlow's names are listed in sparkflow/__init__.pyi.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIST = Path(__file__).resolve().parent.parent / "tests" / "contracts" / "public_api.txt"
MODULES = ("sparkflow.export", "sparkflow.export.mlflow", "sparkflow.spark")
TESTING = "sparkflow_runtime.testing"
"""Its modules and their definitions are public."""
OURS = ("sparkflow.", "sparkflow_runtime.")


def lines() -> list[str]:
    """Returns the list."""
    found: set[str] = set()
    testing = pkgutil.iter_modules(importlib.import_module(TESTING).__path__, f"{TESTING}.")
    for module in (*MODULES, *(each.name for each in testing)):
        loaded = importlib.import_module(module)
        names = getattr(loaded, "__all__", None) or [
            name
            for name, value in vars(loaded).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module
        ]
        for name in names:
            found.update(_of(f"{module}.{name}", getattr(loaded, name)))
    return sorted(found)


def _of(name: str, thing: Any) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield name + _parameters(thing)
        return
    yield name
    given: set[str] = set()
    if inspect.isfunction(thing.__init__):
        given.update(inspect.signature(thing).parameters)
        yield from (f"{name}({each})" for each in given)
    # Every parameter of an estimator has these.
    follow = {f"{verb}{each[0].upper()}{each[1:]}" for each in given for verb in ("get", "set")}
    for home in thing.__mro__:
        if not home.__module__.startswith(OURS):
            continue  # pyspark's differ between versions
        for each, value in vars(home).items():
            if each.startswith("_") or each in given | follow:
                continue
            # Public methods of estimators are camelCase, as in Spark ML; others are for our own
            # classes.
            if "_" not in each or "fit" not in dir(thing):
                yield f"{name}.{each}{_parameters(getattr(thing, each, value))}"


def _parameters(thing: Any) -> str:
    if not inspect.isroutine(thing):
        return ""
    names = [each for each in inspect.signature(thing).parameters if each != "self"]
    return f"({', '.join(names)})"


def main() -> int:
    """Runs the script; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; write nothing")
    wanted = lines()
    if not parser.parse_args().check:
        LIST.write_text("\n".join(wanted) + "\n")
        return 0
    listed = LIST.read_text().splitlines()
    for line in sorted({*wanted} ^ {*listed}):
        print("gone: " if line in listed else "new: ", line, sep="")
    return int(wanted != listed)


if __name__ == "__main__":
    sys.exit(main())
