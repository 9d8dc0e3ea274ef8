import pytest

from support import changed
from support.import_graph import ROOT


def broken(*paths):
    return [str(path.relative_to(ROOT)) for path in changed.broken_by([ROOT / p for p in paths])]


def test_finds_the_nearest_tests_first():
    found = broken("runtime/sparkflow_runtime/passes/merge.py")
    assert found[0] == "tests/sparkflow_runtime/passes/test_merge.py"
    assert "tests/sparkflow/session/test_session.py" in found  # merging nodes affects every session


def test_a_module_that_few_use_breaks_few():
    found = broken("sparkflow/distributions/continuous.py")
    assert found[0].startswith("tests/sparkflow/distributions/")
    assert len(found) < 60


def test_what_an_op_breaks_names_it():
    found = changed.broken_by([changed.ops()["Einsum"]])
    assert ROOT / "tests/compatibility/test_linear_algebra.py" in found  # tf.einsum
    assert ROOT / "tests/sparkflow_runtime/rendezvous/test_table.py" not in found


def test_a_test_breaks_by_itself():
    assert broken("tests/sparkflow_runtime/test_shapes.py")[0].endswith("test_shapes.py")


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/golden/differential/arrays.json", "tests/sparkflow/test_differential.py"),
        ("tests/sparkflow/differential_cases.py", "tests/sparkflow/test_differential.py"),
        ("docs/replication.md", "tests/docs/test_replication.py"),
        ("examples/digits.ipynb", "tests/examples/test_notebooks.py"),
        ("tests/compatibility/conftest.py", "tests/compatibility/test_flow.py"),
    ],
)
def test_other_files_are_used_by_the_tests_that_name_them(path, test):
    assert test in broken(path)


def test_tests_of_the_whole_tree_always_run():
    assert [path for path in broken() if not path.startswith(changed.WHOLE_TREE)] == []
    assert broken()


def test_what_everything_depends_on_runs_everything(monkeypatch, capsys):
    monkeypatch.setattr(changed, "changed_files", lambda commit: [ROOT / "pyproject.toml"])
    changed.main([])
    assert capsys.readouterr().out == "tests\n"


def test_changed_files_are_those_of_git():
    assert all(path.is_absolute() for path in changed.changed_files("HEAD"))
