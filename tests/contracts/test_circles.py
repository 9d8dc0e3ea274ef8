"""No circles of imports, and no folder in which nothing can be found."""

from collections import Counter

import pytest

from support import import_graph
from support.mirror import is_generated

MOST = 22
"""Modules beside each other in a folder, but for what a script writes; 20 are enough."""


def test_no_modules_import_each_other():
    """Imports in functions count, those for types do not."""
    assert import_graph.circles(import_graph.graph()) == []


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
    assert not large, f"{large}: make a folder of what belongs together"


def test_a_circle_is_found():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}
    assert import_graph.circles(edges) == [["b", "c"]]
