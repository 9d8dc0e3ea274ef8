"""Writes `sparkflow/_generated` and the stubs of `sparkflow` and its `contrib`; or checks them.

    PYTHONPATH=runtime:. python scripts/generate_api.py           # rewrites the files
    PYTHONPATH=runtime:. python scripts/generate_api.py --check   # exits with 1 if one differs

The public functions that only add one node come from `sparkflow/_api/ops`; other public names from
`@export` above their definitions and `sparkflow/_api/faces.py`. Needs ruff, which formats the
files.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from api.declarations import PACKAGE, ROOT, public, tables
from api.faces import MADE, face_files
from api.functions import module_of


def main() -> None:
    """Writes or checks the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    wanted = files()
    differing = [path for path, text in wanted.items() if _read(PACKAGE / path) != text]
    kept = (PACKAGE / path for path in wanted)
    stale = sorted({*_present()} - {*kept})
    if parser.parse_args().check:
        found = [*differing, *(str(path.relative_to(PACKAGE)) for path in stale)]
        if found:
            sys.exit(f"out of date: {', '.join(found)}; run scripts/generate_api.py")
        return
    for path in stale:
        path.unlink()
    for path in differing:
        (PACKAGE / path).parent.mkdir(parents=True, exist_ok=True)
        (PACKAGE / path).write_text(wanted[path])


def files() -> dict[str, str]:
    """Returns the required content of each file, by path below `sparkflow/`."""
    made = face_files(public())
    packages = {"_generated/ops"}
    for family, (doc, rows) in tables().items():
        path = f"_generated/ops/{family.replace('.', '/')}.py"
        packages.add(path.rpartition("/")[0])
        made[path] = module_of(family.replace(".", "/"), doc, rows)
    for package in packages:
        made[f"{package}/__init__.py"] = (
            f'"""Functions of `{package}` that add one node. {MADE}."""\n'
        )
    with ThreadPoolExecutor() as pool:
        return dict(zip(made, pool.map(_formatted, made, made.values()), strict=True))


def _formatted(path: str, text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "format", "--quiet", "--stdin-filename", path.replace("/", "_"), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def _present() -> list[Path]:
    return [path for path in (PACKAGE / "_generated").rglob("*.py*") if path.suffix != ".pyc"]


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    main()
