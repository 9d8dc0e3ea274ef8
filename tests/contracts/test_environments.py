"""The constraint files of `scripts/check_environments.sh` against pyproject.toml."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "scripts" / "environments"
FILES = sorted(FOLDER.glob("*.txt"))
PINNED = re.compile(r"^([\w.-]+)==(\S+)$", re.MULTILINE)
FLOOR = re.compile(r'"([\w.-]+)>=([\d.]+)')
PROJECT = (ROOT / "pyproject.toml").read_text()
OPTIONAL = PROJECT.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
EXTRAS = dict(re.findall(r"^(\w+) = \[(.*?)\]$", OPTIONAL, re.MULTILINE | re.DOTALL))
HIGHEST = {
    "grpcio": "1.67.0",
    "protobuf": "5.29.4",
    "pyarrow": "21",
    "numpy": "2.1.3",
    "pandas": "2.2.3",
}
"""The versions that Databricks 17.3 pins, and that 18 is assumed to have."""


PYTHONS = re.findall(r'Language :: Python :: (3\.\d+)"', PROJECT)


def number(version):
    return [int(part) for part in version.split(".")]


def floors():
    """The lower bounds of an installation with the extra `spark`."""
    core = PROJECT.partition("\ndependencies = [")[2].partition("\n]")[0]
    texts = [core, *(EXTRAS[extra] for extra in ("spark", "compiled", "arrow", "tls"))]
    return dict(FLOOR.findall("\n".join(texts)))


def test_the_oldest_environment_has_the_oldest_that_is_allowed():
    pinned = dict(PINNED.findall((FOLDER / "floors.txt").read_text()))
    allowed = floors()
    assert pinned.keys() == allowed.keys()
    for name, version in pinned.items():
        asked, got = number(allowed[name]), number(version)
        assert got[: len(asked)] == asked, name
        assert not any(got[len(asked) :]), name


def test_no_floor_is_above_what_databricks_pins():
    allowed = floors()
    for name, version in HIGHEST.items():
        assert number(allowed[name]) <= number(version), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_comments_of_a_file_name_what_there_is(path):
    text = path.read_text()
    said = dict(re.findall(r"^# ([\w-]+): *(.*)$", text, re.MULTILINE))
    assert {"python", "extras"} <= said.keys() <= {"python", "extras", "beside", "pip", "may-fail"}
    assert f'Python :: {said["python"]}"' in PROJECT
    assert {*filter(None, said["extras"].split(","))} <= EXTRAS.keys()
    assert path.stem in (ROOT / "docs" / "compatibility.md").read_text()


@pytest.mark.parametrize("name", ["README.md", "docs/deploy/index.md", "docs/compatibility.md"])
def test_texts_say_the_pythons_of_the_classifiers(name):
    said = re.findall(r"Python (3\.\d+) to (3\.\d+)", (ROOT / name).read_text())
    assert said == [(PYTHONS[0], PYTHONS[-1])]
    assert f'requires-python = ">={PYTHONS[0]}"' in PROJECT


def test_each_python_is_that_of_an_environment():
    said = {re.findall(r"^# python: (.*)$", path.read_text(), re.MULTILINE)[0] for path in FILES}
    assert said == {*PYTHONS}
