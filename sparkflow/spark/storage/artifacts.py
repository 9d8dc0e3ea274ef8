"""Values that tasks need, such as a model's files: broadcast variables of Connect sessions.

Small ones are sent in the closure of every query that uses them. Large ones are sent once per
session as an artifact, in chunks, because the message of a query is limited to 128 MB.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

LARGEST_IN_CLOSURE_BYTES: Final = 4 << 20


class Shipped(Protocol):
    """Files by name, in a task."""

    @property
    def value(self) -> Mapping[str, bytes]: ...  # noqa: D102  as a broadcast variable has it


class InClosure:
    """Travels with the function that uses it.

    Args:
        value: The files.
    """

    def __init__(self, value: Mapping[str, bytes]) -> None:
        self.value = value


class AsArtifact:
    """Lies beside the task, where Spark has put the session's artifacts.

    Args:
        names: The files, and what each is called there.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    @property
    def value(self) -> Mapping[str, bytes]:
        """The files."""
        from pyspark import SparkFiles

        return {
            name: Path(SparkFiles.get(artifact)).read_bytes()
            for name, artifact in self._names.items()
        }


def ship(session: Any, files: Mapping[str, bytes]) -> Shipped:
    """Makes files known to the tasks of a Connect session."""
    if sum(map(len, files.values())) <= LARGEST_IN_CLOSURE_BYTES:
        return InClosure(files)
    # Named by content: the same model is sent once, and another one never replaces it.
    names = {
        name: f"sparkflow-{hashlib.sha256(content).hexdigest()[:32]}"
        for name, content in files.items()
    }
    known = _known_artifacts(session)
    with tempfile.TemporaryDirectory(prefix="sparkflow-") as folder:
        for name, artifact in names.items():
            if artifact not in known:
                path = os.path.join(folder, artifact)
                Path(path).write_bytes(files[name])
                session.addArtifacts(path, file=True)
                known.add(artifact)
    return AsArtifact(names)


def _known_artifacts(session: Any) -> set[str]:
    # Kept with the session: a new one has no artifacts yet.
    known: set[str] = session.__dict__.setdefault("_sparkflow_artifacts", set())
    return known
