from support import import_graph


def test_modules_are_those_of_both_packages_and_of_the_support():
    modules = import_graph.modules()
    assert modules["sparkflow_runtime.shapes"].name == "shapes.py"
    assert modules["sparkflow.train"].name == "__init__.py"
    assert modules["support.import_graph"].samefile(import_graph.__file__)
    assert "support" in modules


def uses_of(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(text)
    return {use.target: use.kind for use in import_graph.read(path).uses}


def test_tells_imports_in_functions_and_for_types_from_others(tmp_path):
    found = uses_of(
        tmp_path,
        "from typing import TYPE_CHECKING\n"
        "from sparkflow_runtime import shapes\n"
        "if TYPE_CHECKING:\n    import sparkflow_runtime.errors\n"
        "def f():\n    from sparkflow_runtime import once\n",
    )
    assert found == {
        "sparkflow_runtime.shapes": "import",
        "sparkflow_runtime.errors": "typing",
        "sparkflow_runtime.once": "lazy",
    }


def test_names_of_a_package_are_uses_of_the_module_that_they_are_written_in(tmp_path):
    found = uses_of(tmp_path, "import sparkflow as tf\nx = tf.train.AdamOptimizer(0.1)\n")
    assert found["sparkflow.train.optimizers.adam"] == "import"
    assert "sparkflow.train.optimizers.momentum" not in found


def test_names_that_a_module_re_exports_count_for_their_own(tmp_path):
    found = uses_of(tmp_path, "from sparkflow.train import AdamOptimizer\n")
    assert found.keys() == {"sparkflow.train", "sparkflow.train.optimizers.adam"}


def test_a_module_that_is_named_in_a_string_is_used(tmp_path):
    found = uses_of(tmp_path, 'COMMAND = ["-m", "sparkflow_runtime.process"]\n')
    assert found == {"sparkflow_runtime.process": "string"}


def test_circles_are_components_of_more_than_one_node():
    edges = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a", "e"], "e": ["d"], "f": ["f", "a"]}
    assert import_graph.circles(edges) == [["a", "b", "c"], ["d", "e"]]


def test_the_rooms_of_the_back_end_have_no_circle():
    assert import_graph.circles(import_graph.rooms("sparkflow_runtime")) == []
