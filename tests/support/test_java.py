"""Options of the tests' JVMs, which Spark splits like a shell."""

import shlex
import tempfile
from pathlib import Path

import pytest

from support import java


def test_options_of_an_environment_in_a_folder_with_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a fresh clone's"
    (folder / "java").mkdir(parents=True)
    monkeypatch.setattr("sys.prefix", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    archive = java.archive_path()
    assert archive.parent == folder
    assert f"-XX:ArchiveClassesAtExit={archive}" in shlex.split(java.making_archive(archive))
    assert not any(str(archive) in option for option in shlex.split(java.options()))
    archive.touch()
    found = shlex.split(java.options())
    assert f"-XX:SharedArchiveFile={archive}" in found
    assert f"-Djava.io.tmpdir={folder}/java" in found
    assert all(option.startswith("-") for option in found)
