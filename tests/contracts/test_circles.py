"""No circular imports, and no folder or file too large to find anything in."""

from collections import Counter

import pytest

from support import import_graph
from support.mirror import is_generated
from support.tracked import tracked

MOST = 20
"""The maximum number of modules in a folder, except those that a script writes."""
MOST_LINES = 600
"""The maximum number of lines of a module, except those that a script writes (docs/adr/0057)."""


def test_no_modules_import_each_other():
    """Imports in functions count, those for types do not."""
    assert import_graph.circles(import_graph.graph()) == []


TYPES = {
    "sparkflow.data": 6,
    "sparkflow.eager": 3,
    "sparkflow.graph": 12,
    "sparkflow.train.optimizers": 2,
    "sparkflow_runtime.ops": 2,
    "sparkflow_runtime.ops.optimizers": 3,
    "sparkflow_runtime.worker": 5,
}
"""The number of modules, by folder, that import each other only for types. It may only shrink."""


def test_modules_that_know_each_other_by_types_become_fewer():
    """A Protocol defined in the lower module separates them."""
    circles = import_graph.circles(import_graph.graph(("import", "lazy", "typing")))
    counts = Counter(name.rpartition(".")[0] for circle in circles for name in circle)
    worse = {folder: count for folder, count in counts.items() if count > TYPES.get(folder, 0)}
    assert not worse, [circle for circle in circles if circle[0].rpartition(".")[0] in worse]
    better = {folder: counts[folder] for folder in TYPES if counts[folder] < TYPES[folder]}
    assert not better, f"Set TYPES to {better}, or remove the zeros"


@pytest.mark.parametrize("package", ["sparkflow", "sparkflow.spark", "sparkflow_runtime"])
def test_no_folders_import_each_other(package):
    assert import_graph.circles(import_graph.rooms(package)) == []


def test_a_folder_has_as_many_modules_as_can_be_looked_over():
    counts = Counter(
        path.parent.as_posix()
        for name, path in import_graph.modules().items()
        if path.name != "__init__.py" and not is_generated(name) and not name.startswith("support")
    )
    large = {folder: count for folder, count in counts.items() if count > MOST}
    assert not large, f"{large}: move modules that belong together to a new folder"


def test_a_module_has_as_many_lines_as_can_be_read():
    """Those of tests, scripts and benchmarks, too."""
    names = {path: name for name, path in import_graph.modules().items()}
    paths = [import_graph.ROOT / each for each in tracked("*.py")]
    long = {
        path.relative_to(import_graph.ROOT).as_posix(): lines
        for path in paths
        if (lines := len(path.read_text("utf-8").splitlines())) > MOST_LINES
        and not is_generated(names.get(path, ""))
    }
    assert not long, f"{long}: move code that belongs together to a new module"


def test_a_circle_is_found():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}
    assert import_graph.circles(edges) == [["b", "c"]]
