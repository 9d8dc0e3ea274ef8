"""Access to small files on executor storage, through tasks: a Connect client has no Hadoop.

Paths without a scheme are those of the executors, as they are for Spark's own writers. Reading goes
through Spark's `binaryFile` format and so reaches whatever Spark does; writing goes through
pyarrow's file systems (`hdfs:`, `s3a:`, `gs:`) or the executor's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException

from sparkflow.spark.data.tfrecord.record_files import plain_path
from sparkflow.spark.storage.artifacts import ship
from sparkflow_runtime.files import system
from sparkflow_runtime.files.whole import is_partial, write_whole

_DONE: Final = "done boolean"


def write_files(
    session: Any,
    directory: str,
    files: Mapping[str, bytes],
    is_obsolete: Callable[[str], bool],
) -> None:
    """Writes files into a directory, one after the other, each of them at once.

    Args:
        session: The session.
        directory: Made if it does not exist.
        files: The contents by name.
        is_obsolete: Which names, other than those of `files`, are deleted at the end.
    """
    shipped = ship(session, dict(files))
    _in_one_task(session, functools.partial(_write, directory, shipped, is_obsolete))


def read_files(session: Any, directory: str, names: Iterable[str]) -> dict[str, bytes]:
    """The content of files in a directory; those that do not exist are left out."""
    wanted = set(names)
    try:
        rows = session.read.format("binaryFile").load(f"{directory}/*").collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return {}
        raise
    found = {row["path"].rpartition("/")[2]: bytes(row["content"]) for row in rows}
    return {name: content for name, content in found.items() if name in wanted}


def remove_directory(session: Any, directory: str) -> None:
    """Removes a directory and everything in it, if it exists."""
    _in_one_task(session, functools.partial(_remove, directory))


def _in_one_task(session: Any, work: Callable[[], None]) -> None:
    session.range(1).coalesce(1).mapInArrow(functools.partial(_run, work), _DONE).collect()


def _run(work: Callable[[], None], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        work()
        yield pa.RecordBatch.from_pydict({"done": pa.array([True])})


def _write(directory: str, shipped: Any, is_obsolete: Callable[[str], bool]) -> None:
    place = plain_path(directory)
    system.make_dirs(place)
    files = shipped.value
    for name, content in files.items():
        write_whole(system.join(place, name), content)
    for name in system.list_directory(place):
        if name not in files and (is_obsolete(name) or is_partial(name)):
            system.remove(system.join(place, name))


def _remove(directory: str) -> None:
    place = plain_path(directory)
    if system.exists(place):
        system.delete_recursively(place)
