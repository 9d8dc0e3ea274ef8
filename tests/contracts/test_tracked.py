"""Git tracks what was written, not what a program left in the work tree."""

from support.import_graph import ROOT
from support.tracked import tracked

FOLDERS = {
    ".ci",
    "benchmarks",
    "docker",
    "docs",
    "examples",
    "fuzz",
    "proto",
    "runtime",
    "scripts",
    "sparkflow",
    "tests",
}
FILES = {
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "mkdocs.yml",
    "pyproject.toml",
}
OF_CODE = ("runtime", "sparkflow", "scripts", "benchmarks", "examples", "proto", ".ci", "docker")


def test_the_top_folder_has_nothing_else():
    names = [name.partition("/") for name in tracked()]
    assert {top for top, slash, _ in names if slash} <= FOLDERS
    assert {top for top, slash, _ in names if not slash} <= FILES


def test_folders_of_code_have_no_binary_files():
    paths = [ROOT / name for name in tracked(*OF_CODE)]
    assert not [path for path in paths if path.is_file() and b"\0" in path.read_bytes()]
