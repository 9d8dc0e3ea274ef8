"""Which path is recognised as which kind of table, and the errors for others."""

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkflow.spark.data.tables.opening import table_files


def test_a_path_is_known_by_its_log(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "t"
    deltalake.write_deltalake(str(path), pa.table({"x": [1], "p": [2]}), partition_by=["p"])
    files = table_files(path)
    assert files.origin.startswith("version 0 of the Delta table")
    assert (
        table_files(f"file://{path}", 0).rows == table_files(deltalake.DeltaTable(path)).rows == 1
    )
    with pytest.raises(ValueError, match=r"p=2' is inside a table: pass '.*/t' to fitOnTable"):
        table_files(str(path / "p=2"))
    os.symlink(path, tmp_path / "link")
    assert table_files(str(tmp_path / "link")).rows == 1


def test_a_folder_of_hadoops_catalog_has_a_hint(tmp_path):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v3.metadata.json").write_text("{}")
    with pytest.raises(ValueError, match="whose catalog determines the current metadata file"):
        table_files(tmp_path)
    (tmp_path / "metadata" / "version-hint.text").write_text("3\n")
    pytest.importorskip("pyiceberg")
    with pytest.raises(ValueError, match=r"v3\.metadata\.json' cannot be read"):
        table_files(tmp_path)


def test_what_is_no_table_is_refused(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"is not a table: fitOnTable reads .* fitOnParquet reads"):
        table_files(tmp_path)
    with pytest.raises(TypeError, match=r"got list; fit takes a DataFrame"):
        table_files([1])
    (tmp_path / ".hoodie").mkdir()
    with pytest.raises(ValueError, match="is a table of Apache Hudi: fitOnTable reads"):
        table_files(tmp_path)


@pytest.mark.parametrize(("package", "extra"), [("deltalake", "delta"), ("pyiceberg", "iceberg")])
def test_what_is_missing_is_named(tmp_path, package, extra):
    (tmp_path / "_delta_log").mkdir()
    path = str(tmp_path) if extra == "delta" else str(tmp_path / "v1.metadata.json")
    code = (
        "import sys, importlib.machinery as machinery\n"
        "find = machinery.PathFinder.find_spec\n"
        f"machinery.PathFinder.find_spec = lambda name, *rest: None if name == {package!r} else "
        "find(name, *rest)\n"
        "from sparkflow.spark.data.tables.opening import table_files\n"
        "assert not {'deltalake', 'pyiceberg'} & set(sys.modules)\n"
        f"table_files({path!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ")
    assert last.endswith(f"pip install 'sparkflow-ml[{extra}]'")
