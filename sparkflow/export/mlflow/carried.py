"""What a logged model contains so that it loads without sparkflow being installed.

PyPI has another package called sparkflow, so a requirement could bring that one. The model has the
code itself, in one archive: a thousand files would take minutes to reach an object store. Its
requirements are the packages that this code imports, at the versions it runs with now.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.resources
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkflow.export.mlflow import loader

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LOADER: Final = "sparkflow_mlflow_loader"
"""The module that MLflow imports."""
_PACKAGES: Final = ("sparkflow", "sparkflow_runtime")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)

REQUIRED: Final = (
    "absl-py",
    "dm-tree",
    "google-crc32c",
    "google-re2",
    "grpcio",
    "ml_dtypes",
    "numpy",
    "pillow",
    "protobuf",
    "safetensors",
    "scipy",
    "threadpoolctl",
    "tqdm",
)
"""As `project.dependencies` in pyproject.toml."""
_IF_INSTALLED: Final = ("llvmlite", "pandas", "mlflow-skinny")


def requirements() -> list[str]:
    """The pip requirements of a model, at the versions of this process."""
    found = [f"{name}=={importlib.metadata.version(name)}" for name in REQUIRED]
    wanted = [*_IF_INSTALLED]
    if _version("mlflow") is not None:  # MLflow adds itself
        wanted.remove("mlflow-skinny")
    for name in wanted:
        version = _version(name)
        if version is not None:
            found.append(f"{name}=={version}")
    return found


def write_code(folder: Path) -> list[str]:
    """Writes what MLflow copies next to the model: the loader, and sparkflow as an archive.

    Returns:
        The paths of both.
    """
    script, archive = folder / f"{LOADER}.py", folder / loader.CODE
    archive.write_bytes(_archive())
    source = importlib.resources.files("sparkflow.export.mlflow").joinpath("loader.py")
    script.write_bytes(source.read_bytes())
    return [str(script), str(archive)]


@functools.cache  # half a second, and the code of a process does not change
def _archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as written:
        for package in _PACKAGES:
            for name, file in _files(importlib.resources.files(package), package):
                # Without times, so that the same code gives the same archive.
                stamp = zipfile.ZipInfo(name, _EPOCH)
                written.writestr(stamp, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        below = f"{name}/{each.name}"
        if each.is_dir():
            if each.name != "__pycache__":
                yield from _files(each, below)
        elif each.name.endswith((".py", ".typed")):
            yield below, each


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
