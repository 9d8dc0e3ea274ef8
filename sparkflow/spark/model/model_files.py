"""The files of a model, on any file system that Spark can reach.

In classic sessions the driver's JVM copies between Hadoop's file system and a local folder: py4j
would transfer bytes as text, at a hundredth of the speed and with the whole file in memory. Connect
sessions have no JVM; there a task copies the files.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sparkflow.export.model_files import MODEL_FILE, is_data_file
from sparkflow.spark.storage.hadoop_files import HadoopFiles
from sparkflow_runtime.errors import NotFoundError


def local_folder(session: Any, directory: str) -> Path | None:
    """Returns the directory if it is on this machine; None if it is elsewhere."""
    if not hasattr(session, "_jsparkSession"):
        return None  # the executors are on other machines
    gateway, file_system = _file_system(session, directory)
    if file_system.getUri().getScheme() != "file":
        return None
    return Path(file_system.makeQualified(gateway.Path(directory)).toUri().getPath())


def upload(session: Any, folder: Path, directory: str) -> None:
    """Copies a model's files from a local folder into a directory, which is created if missing.

    The description is written last and atomically, and decides which model the directory holds;
    files of another model are then deleted.
    """
    data = [each.name for each in folder.iterdir() if each.name != MODEL_FILE]
    description = (folder / MODEL_FILE).read_bytes()
    if not hasattr(session, "_jsparkSession"):
        from sparkflow.spark.storage.connect_files import write_files

        content = {name: (folder / name).read_bytes() for name in data}
        write_files(session, directory, content | {MODEL_FILE: description}, is_data_file)
        return
    gateway, file_system = _file_system(session, directory)
    files = _hadoop_files(session)
    try:
        for name in data:
            source = gateway.Path((folder / name).as_uri())
            file_system.copyFromLocalFile(False, True, source, _in(gateway, directory, name))
        files.write_whole(posixpath.join(directory, MODEL_FILE), description)
    except Exception:
        with contextlib.suppress(Exception):  # the reason for the failure is what matters
            if read_model_file(session, directory) != description:  # else the model is complete
                for name in data:
                    files.remove_tree(posixpath.join(directory, name))
        raise
    for name in files.list(directory):
        if is_data_file(name) and name not in data:
            files.remove_tree(posixpath.join(directory, name))


def read_model_file(session: Any, directory: str) -> bytes | None:
    """Returns the description of the model in a directory; None if there is none."""
    if not hasattr(session, "_jsparkSession"):
        from sparkflow.spark.storage.connect_files import read_files

        return read_files(session, directory, [MODEL_FILE]).get(MODEL_FILE)
    try:
        return _hadoop_files(session).read(posixpath.join(directory, MODEL_FILE))
    except NotFoundError:
        return None


def remove(session: Any, directory: str) -> None:
    """Deletes a directory and its content; does nothing if it does not exist."""
    if not hasattr(session, "_jsparkSession"):
        from sparkflow.spark.storage.connect_files import remove_directory

        remove_directory(session, directory)
        return
    _hadoop_files(session).remove_tree(directory)


def download(session: Any, directory: str, names: Iterable[str], folder: Path) -> None:
    """Copies files from a directory into a local folder.

    Raises:
        NotFoundError: A file does not exist.
    """
    wanted = list(names)
    if not hasattr(session, "_jsparkSession"):
        from sparkflow.spark.storage.connect_files import read_files

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
            message=f"{directory} does not contain a model; it lacks "
            f"{', '.join(missing)}. Was it written by "
            "another program, or is it a pipeline's directory (PipelineModel.load)?"
        )


def _hadoop_files(session: Any) -> HadoopFiles:
    context = session.sparkContext
    return HadoopFiles(context._jvm, context._jsc.hadoopConfiguration())


def _file_system(session: Any, directory: str) -> tuple[Any, Any]:
    gateway = session.sparkContext._jvm.org.apache.hadoop.fs
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    return gateway, gateway.Path(directory).getFileSystem(configuration)


def _in(gateway: Any, directory: str, name: str) -> Any:
    return gateway.Path(posixpath.join(directory, name))
