"""Prints the size and coupling of the code, in this tree or in another commit.

    .venv/bin/python scripts/measure_house.py
    .venv/bin/python scripts/measure_house.py --commit 29b69e0 --wheel

Counted in both packages, unless stated otherwise:

hand-written lines
    Lines of `.py` and `.pyi` files except `protos/`, `_generated/`, and other files that a script
    writes: `raw_ops.pyi`, the index of ops, accessors and values of Spark parameters.
ops told by their names outside of ops
    Collections of op types, comparisons with one and the like outside of `sparkflow_runtime.ops`
    that are not intended, as defined in tests/support/op_names.py for the contract test; followed
    by those that are: rewrite rules and generated tables by file, the rest by name.
places that turn Arrow into arrays
    Modules, except test support, that use pyarrow and call `to_numpy`, `to_pylist`, `buffers` and
    the like, or pass a column to numpy, as defined in tests/support/arrow_places.py.
circles
    Strongly connected components of a package's folders and top modules, and of its modules, by
    imports at import time and in functions.
modules in one folder, at most
    Hand-written files in the same folder, without `__init__.py`.
modules loaded by the first addition
    Our modules in `sys.modules` of a new process after
    `import sparkflow as tf; tf.Session().run(tf.add(1.0, 2.0))`.
concepts
    Countable proxies for what a person has to know:
    an op: class attributes and methods of `Op` itself, and places outside that refer to ops by
    name; next to it what `Op` inherits: optional traits, with defaults that suit every op;
    a Spark parameter: the median, over the parameters of `SparkTrainer`, of the number of files
    with its name: as a field of a config, in a getter or setter, or as a whole string. These are
    the row that declares it and the code that uses it; generated files do not count;
    the transport: top-level classes of `transport/` and `rendezvous/` modules;
    a pass: modules outside of the passes that these import, in total, and next to it what a single
    module of them imports, including other passes;
    a fusion: top-level classes of `compiler/` modules with "fus" in their path, and of `codegen/`
    modules that they import.
files on a row's way
    Modules of `sparkflow.spark.data` that a fit of a DataFrame loads: the entry points of the
    driver, the Spark task and the training process, and their imports at import time; next to them,
    modules of `sparkflow.spark` outside of `data` that those import directly. Parquet files read by
    workers, data sources for Spark, and datasets of programs take other ways.
modules without a test
    Modules without a test file at the mirrored place, or one next to it that was observed to run
    them, as defined in tests/support/mirror.py; followed by those with ops without a row in the
    tables.
wheel
    Its size, if `--wheel` builds one.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
GENERATED = re.compile(
    r"/(protos|_generated)/|/raw_ops\.pyi$|/ops/index\.py$"
    r"|/params/(accessors/\w+|values)\.py$|/estimators/estimator_accessors\.py$"
)
DATA = "sparkflow.spark.data."
DOORS = ("plan.arrange", "spool.spool", "feed.worker_feed")
"""The entry points of the driver, the Spark task and the training process into `data`."""


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", help="measure this commit in a work tree of its own")
    parser.add_argument("--wheel", action="store_true", help="build the wheel, too")
    arguments = parser.parse_args()
    if arguments.commit:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder, "tree")
            git = ["git", "-C", str(ROOT), "worktree"]
            subprocess.run([*git, "add", "-q", "--detach", str(tree), arguments.commit], check=True)
            try:
                measure(tree, arguments.wheel)
            finally:
                subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    else:
        measure(ROOT, arguments.wheel)


def measure(tree: Path, wheel: bool) -> None:
    """Prints the measures of a tree."""
    from support import arrow_places, import_graph, op_names
    from support.mirror import in_tables

    import_graph.set_root(tree)
    names = sorted(each for each in import_graph.modules() if not each.startswith("support"))
    paths = {name: import_graph.modules()[name] for name in names}
    written = [path for path in _sources(tree) if not GENERATED.search(str(path))]
    lines = {path: len(path.read_text().splitlines()) for path in written}
    row("hand-written lines", sum(lines.values()))
    row("  of them in sparkflow", _sum(lines, tree / "sparkflow"))
    row("  of them in sparkflow.spark", _sum(lines, tree / "sparkflow" / "spark"))
    row("  of them in sparkflow_runtime", _sum(lines, tree / "runtime"))
    row("files", len(written))
    row("lines of a file, median", sorted(lines.values())[len(lines) // 2])
    row("files over 600 lines", sum(each > 600 for each in lines.values()))
    ops = _op_names(tree)
    row("op types", len(ops))
    told = op_names.of_tree(tree, ops)
    unmeant = op_names.not_meant(told)
    row("ops told by their names outside of ops", _places(unmeant), ", ".join(unmeant))
    meant = op_names.MEANT.values()
    row("  meant, by name", sum(map(len, meant)), f"in {len(meant)} files")
    row("  files and folders of rewrite rules", len(op_names.RULES))
    row("  where the words mean something else", len(op_names.OTHER_WORDS))
    arrow = arrow_places.places(paths)
    row("places that turn Arrow into arrays", len(arrow), ", ".join(arrow))
    for package in ("sparkflow", "sparkflow.spark", "sparkflow_runtime"):
        found = import_graph.circles(import_graph.rooms(package))
        row(
            f"folder circles in {package}", len(found), " | ".join(" ".join(each) for each in found)
        )
    circles = import_graph.circles(import_graph.graph())
    row("module circles", len(circles), " | ".join(str(len(each)) for each in circles))
    folders = Counter(
        path.parent
        for path in paths.values()
        if path.name != "__init__.py" and not GENERATED.search(str(path))
    )
    folder, most = max(
        ((folder, count) for folder, count in folders.items()),
        key=lambda pair: pair[1],
    )
    row("modules in one folder, at most", most, str(folder.relative_to(tree)))
    row("folders with more than 20 modules", sum(count > 20 for count in folders.values()))
    row("modules loaded by the first addition", _loaded(tree))
    own, inherited = _members(tree)
    row("concepts: an op", own + _places(unmeant), "members of Op itself, names outside")
    row("  traits that it may say besides", inherited)
    spark = {name: path for name, path in paths.items() if name.startswith("sparkflow.spark")}
    said = _parameters(tree, spark)
    most = max(said, key=lambda name: said[name])
    median = sorted(said.values())[len(said) // 2]
    row("concepts: a Spark parameter", median, f"of {len(said)}; {most}: {said[most]} files")
    row("concepts: the transport", _classes(paths, r"\.(transport|rendezvous)\b"), "classes")
    passes = re.compile(r"sparkflow_runtime\.(graph_)?passes\b")
    each = sorted(len(_imported_by(re.compile(f"{re.escape(n)}$"))) for n in _users(passes))
    of_one = f"one of them {each[len(each) // 2]} in the median, {each[-1]} at most"
    row("concepts: a pass", len(_imported_by(passes)), f"modules that passes import; {of_one}")
    fusion = re.compile(r"sparkflow_runtime\.compiler\b.*fus")
    below = {n for n in _imported_by(fusion) if n.startswith("sparkflow_runtime.codegen")}
    own = _classes(paths, fusion.pattern)
    row("concepts: a fusion", own + sum(_classes({n: paths[n]}, "") for n in below), "classes")
    way = _row_files(paths)
    beside = sorted(name for name in way if not name.startswith("sparkflow.spark.data."))
    row("files on a row's way", len(way) - len(beside), f"and beside: {', '.join(beside)}")
    without = _without_test(tree, paths)
    row("modules without a test", len(without))
    row("  and without ops that are all in tables", sum(not in_tables(each) for each in without))
    if wheel:
        row("wheel, KiB", _wheel_kib(tree))


def row(what: str, figure: object, note: str = "") -> None:
    """Prints one row of the table."""
    print(f"{what:42}{figure:>10}  {note}", flush=True)


def _sources(tree: Path) -> Iterator[Path]:
    for folder in (tree / "sparkflow", tree / "runtime"):
        for suffix in ("*.py", "*.pyi"):
            yield from sorted(folder.rglob(suffix))


def _sum(lines: dict[Path, int], folder: Path) -> int:
    return sum(count for path, count in lines.items() if folder in path.parents)


def _in(tree: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree,
        env={"PYTHONPATH": f"{tree}:{tree / 'runtime'}", "PATH": "/usr/bin:/bin", "HOME": "/tmp"},  # noqa: S108
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _op_names(tree: Path) -> frozenset[str]:
    program = (
        "from sparkflow_runtime.ops import all, registry\n"
        "print(*[op.op_type for op in registry.all_ops()])"
    )
    return frozenset(_in(tree, program).split())


def _loaded(tree: Path) -> int:
    program = (
        "import sys, sparkflow as tf\n"
        "tf.Session().run(tf.add(1., 2.))\n"
        "ours = ('sparkflow', 'sparkflow_runtime')\n"
        "print(sum(name.partition('.')[0] in ours for name in sys.modules))"
    )
    return int(_in(tree, program).split()[-1])


def _places(told: dict[str, list[tuple[int, str]]]) -> int:
    return sum(len(places) for places in told.values())


def _members(tree: Path) -> tuple[int, int]:
    """Returns the number of members that `Op` defines and that it inherits from its traits."""
    ops = tree / "runtime" / "sparkflow_runtime" / "ops"
    own = inherited = 0
    for path in (ops / "op.py", ops / "traits.py"):
        for kind in ast.parse(path.read_text()).body if path.exists() else ():
            if not isinstance(kind, ast.ClassDef) or kind.name in ("NodeView", "Inference"):
                continue
            kinds = (ast.AnnAssign, ast.FunctionDef, ast.Assign)
            names = [each for each in kind.body if isinstance(each, kinds)]
            count = sum(not getattr(each, "name", "").startswith("__") for each in names)
            own += count if kind.name == "Op" else 0
            inherited += count if kind.name != "Op" else 0
    return own, inherited


def _classes(paths: dict[str, Path], pattern: str) -> int:
    chosen = [path for name, path in paths.items() if re.search(pattern, name)]
    return sum(
        isinstance(node, ast.ClassDef)
        for path in chosen
        for node in ast.parse(path.read_text()).body
    )


def _users(pattern: re.Pattern[str]) -> list[str]:
    from support import import_graph

    return [name for name, used in import_graph.graph().items() if used and pattern.match(name)]


def _imported_by(pattern: re.Pattern[str]) -> set[str]:
    from support import import_graph

    users = {name: used for name, used in import_graph.graph().items() if pattern.match(name)}
    packages = {"sparkflow_runtime", "sparkflow_runtime.ops"}
    found = {each for used in users.values() for each in used if not pattern.match(each)}
    return {each for each in found - packages if "protos" not in each}


def _row_files(paths: dict[str, Path]) -> set[str]:
    from support import import_graph

    edges = import_graph.graph(["import"])
    border = [name for name in paths if name.removeprefix(DATA) in DOORS]
    found: set[str] = set()
    while border:
        name = border.pop()
        if name not in found and name.startswith("sparkflow.spark."):
            found.add(name)
            if name.startswith(DATA):  # imports of other modules are not part of the way
                border += edges.get(name, ())
    return {name for name in found if paths[name].name != "__init__.py"}


def _parameters(tree: Path, spark: dict[str, Path]) -> dict[str, int]:
    """Returns the number of hand-written files that contain each parameter's name."""
    program = (
        "from sparkflow.spark.params import table\n"
        "print(*[row.name for group in table.TRAINER for row in group])"
    )
    written = [path for path in spark.values() if not GENERATED.search(str(path))]
    words = [_words(path) for path in written]
    found = {}
    for name in _in(tree, program).split():
        title, snake = name[0].upper() + name[1:], re.sub("[A-Z]", r"_\g<0>", name).lower()
        forms = {f"get{title}", f"set{title}", f"config.{snake}", f"'{name}'"}
        found[name] = sum(bool(forms & each) for each in words)
    return found


def _words(path: Path) -> set[str]:
    """Returns attributes, those of configs after `config.`, and strings in quotes."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
            found.add(f"config.{node.attr}" if owner.endswith("config") else node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(f"'{node.value}'")
    return found


def _without_test(tree: Path, paths: dict[str, Path]) -> list[str]:
    from support.mirror import mirrored, needs_tests

    tests = tree / "tests"
    return [
        name
        for name, path in paths.items()
        if needs_tests(name, path) and not mirrored(name, path, tests)
    ]


def _wheel_kib(tree: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(tree)]
        subprocess.run(build, check=True)
        wheel = next(Path(folder).glob("*.whl"))
        shutil.rmtree(tree / "build", ignore_errors=True)
        return wheel.stat().st_size // 1024


if __name__ == "__main__":
    main()
