"""Files of a model on any file system that Spark can reach.

On classic sessions the driver's JVM copies between Hadoop's file system and a folder of this
machine: py4j would carry bytes as text, at a hundredth of the speed and with all of a file in
memory. Connect sessions have no JVM; there a task does it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sparkflow.export.inference_model import MODEL_FILE
from sparkflow_runtime.errors import NotFoundError


def local_folder(session: Any, directory: str) -> Path | None:
    """The directory, where it is one of this machine; None where it is elsewhere."""
    if not hasattr(session, "_jsparkSession"):
        return None  # the executors' machines are others
    gateway, file_system = _file_system(session, directory)
    if file_system.getUri().getScheme() != "file":
        return None
    return Path(file_system.makeQualified(gateway.Path(directory)).toUri().getPath())


def upload(session: Any, folder: Path, directory: str) -> None:
    """Copies the files of a local folder into a directory, which is made if it does not exist.

    The description comes last: a directory without it holds no model.
    """
    names = sorted((each.name for each in folder.iterdir()), key=lambda name: name == MODEL_FILE)
    if not hasattr(session, "_jsparkSession"):
        from sparkflow.spark.connect.files import write_files

        write_files(session, directory, {name: (folder / name).read_bytes() for name in names})
        return
    gateway, file_system = _file_system(session, directory)
    for name in names:
        source = gateway.Path((folder / name).as_uri())
        file_system.copyFromLocalFile(False, True, source, _in(gateway, directory, name))


def download(session: Any, directory: str, names: Iterable[str], folder: Path) -> None:
    """Copies files of a directory into a local folder.

    Raises:
        NotFoundError: One does not exist.
    """
    wanted = list(names)
    if not hasattr(session, "_jsparkSession"):
        from sparkflow.spark.connect.files import read_files

        found = read_files(session, directory, wanted)
        for name, content in found.items():
            (folder / name).write_bytes(content)
        missing = [name for name in wanted if name not in found]
    else:
        gateway, file_system = _file_system(session, directory)
        missing = []
        for name in wanted:
            source = _in(gateway, directory, name)
            if not file_system.exists(source):
                missing.append(name)
                continue
            # The last argument leaves out Hadoop's own checksum file.
            file_system.copyToLocalFile(False, source, gateway.Path((folder / name).as_uri()), True)
    if missing:
        raise NotFoundError(
            message=f"{directory} holds no model: it lacks {', '.join(missing)}. Was it written by "
            "another program, or is it a pipeline's directory (PipelineModel.load)?"
        )


def _file_system(session: Any, directory: str) -> tuple[Any, Any]:
    gateway = session.sparkContext._jvm.org.apache.hadoop.fs
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    return gateway, gateway.Path(directory).getFileSystem(configuration)


def _in(gateway: Any, directory: str, name: str) -> Any:
    return gateway.Path(posixpath.join(directory, name))
