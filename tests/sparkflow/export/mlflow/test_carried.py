"""The contents of a logged model."""

import zipfile
from importlib.metadata import version
from pathlib import Path

import tomllib
from packaging.requirements import Requirement

from sparkflow.export.mlflow import carried, loader

ROOT = Path(__file__).parents[4]


def test_requirements_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {Requirement(each).name for each in project["dependencies"]}
    assert set(carried.REQUIRED) == names
    found = carried.requirements()
    assert f"numpy=={version('numpy')}" in found
    assert f"llvmlite=={version('llvmlite')}" in found
    assert all(each.count("==") == 1 for each in found)
    assert not any(each.startswith("sparkflow") for each in found)


def test_the_code_is_all_of_it_and_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    script, archive = map(Path, carried.write_code(tmp_path))
    assert script.read_text() == Path(loader.__file__).read_text()
    with zipfile.ZipFile(archive) as opened:
        names = set(opened.namelist())
    for package, folder in (("sparkflow", ROOT), ("sparkflow_runtime", ROOT / "runtime")):
        files = (folder / package).rglob("*.py")
        assert {each.relative_to(folder).as_posix() for each in files} <= names
    assert not any("__pycache__" in name for name in names)
    again = Path(carried.write_code(tmp_path / "again")[1])
    assert again.read_bytes() == archive.read_bytes()
    assert archive.stat().st_size < 6 << 20
