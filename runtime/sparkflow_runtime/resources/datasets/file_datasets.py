"""Datasets of file contents: records, lines, fixed-length bytes, Parquet and Arrow columns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.events.records import frame_record, read_records
from sparkflow_runtime.files.arrow import require_arrow
from sparkflow_runtime.files.compression import check_kind, compressing, expanding
from sparkflow_runtime.files.system import as_text, is_directory, open_file
from sparkflow_runtime.files.table_formats import table_of
from sparkflow_runtime.resources.datasets.dataset import Dataset, Element
from sparkflow_runtime.resources.datasets.dataset_sources import of_blocks

_BLOCK: Final = 256
"""Records or lines that are read together; fewer if they are large."""
_BLOCK_BYTES: Final = 1 << 20


def _of_files(
    names: Sequence[bytes], kind: str, pieces: Callable[[BinaryIO, bytes], Iterator[bytes]]
) -> Dataset:
    check_kind(kind)

    def blocks(name: bytes) -> Iterator[Element]:
        most = 1 if _is_pipe(name) else _BLOCK
        with expanding(open_file(name, seeks=False), kind) as stream:
            for block in _blocks(pieces(stream, name), most):
                texts = np.empty(len(block), object)
                texts[:] = block
                yield (texts,)

    return of_blocks(lambda: _FileByFile(names, blocks))


class _FileByFile(Iterator[Element]):
    """The blocks of one file after another. An error ends its file: the next one follows."""

    def __init__(
        self, names: Sequence[bytes], blocks: Callable[[bytes], Iterator[Element]]
    ) -> None:
        self._names = iter(names)
        self._blocks = blocks
        self._file: Iterator[Element] | None = None

    def __next__(self) -> Element:
        while True:
            if self._file is None:
                self._file = self._blocks(next(self._names))
            block = next(self._file, None)  # a generator that has failed has ended
            if block is not None:
                return block
            self._file = None

    def close(self) -> None:
        """Closes the open file, and opens no other."""
        self._names = iter(())
        close = getattr(self._file, "close", None)
        if close is not None:
            close()


def _is_pipe(name: bytes) -> bool:
    """Whether data arrive while they are read: none may be waited for that are not needed yet."""
    return os.path.exists(name) and not os.path.isfile(name)


def _blocks(pieces: Iterator[bytes], most: int) -> Iterator[list[bytes]]:
    """Collects pieces, up to an error: those before it come first."""
    block: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            block.append(piece)
            size += len(piece)
            if len(block) == most or size >= _BLOCK_BYTES:
                yield block
                block, size = [], 0
    except Exception:
        if block:
            yield block
        raise
    if block:
        yield block


def of_records(names: Sequence[bytes], kind: str) -> Dataset:
    """Returns the records of TFRecord files. After an error, the next file follows.

    Args:
        names: Paths or URIs.
        kind: The compression: "", `GZIP` or `ZLIB`.

    Raises:
        InvalidArgumentError: The compression is unknown.
    """
    return _of_files(names, kind, lambda stream, _: read_records(stream))


def of_lines(names: Sequence[bytes], kind: str) -> Dataset:
    r"""Returns the lines of files, without line ends and any \r; see `of_records`."""

    def lines(stream: BinaryIO, _: bytes) -> Iterator[bytes]:
        for line in stream:
            text = line.removesuffix(b"\n")
            yield text.replace(b"\r", b"") if b"\r" in text else text

    return _of_files(names, kind, lines)


def of_csv_records(names: Sequence[bytes], kind: str, delimiter: bytes, quotes: bool) -> Dataset:
    """Returns the records of CSV files, without line ends; see `of_records`.

    Args:
        names: Paths or URIs.
        kind: The compression.
        delimiter: The byte between fields.
        quotes: Whether fields may be quoted: line ends in those do not end the record.
    """

    def records(stream: BinaryIO, _: bytes) -> Iterator[bytes]:
        held: list[bytes] = []
        is_inside = False
        for line in stream:
            for part in line.splitlines(True) if b"\r" in line else (line,):
                if quotes and (is_inside or b'"' in part):
                    is_inside = _ends_in_quotes(part, delimiter, is_inside)
                if is_inside:
                    held.append(part)
                    continue
                text = part.removesuffix(b"\n").removesuffix(b"\r")
                yield b"".join((*held, text)) if held else text
                held = []
        if held:
            yield b"".join(held)  # an error when it is decoded

    return _of_files(names, kind, records)


def _ends_in_quotes(text: bytes, delimiter: bytes, is_inside: bool) -> bool:
    """Whether a quoted field is open at the end of a text, given whether one is at its start."""
    at = 0
    while True:
        if is_inside:
            end = text.find(b'"', at)
            if end < 0:
                return True
            at = end + 1
            if text[at : at + 1] == b'"':  # it stands for a quote
                at += 1
                continue
            is_inside = False
        elif text[at : at + 1] == b'"':
            is_inside = True
            at += 1
            continue
        at = text.find(delimiter, at) + 1
        if not at:
            return False


def of_pieces(names: Sequence[bytes], header: int, size: int, footer: int, kind: str) -> Dataset:
    """Returns records of `size` bytes, between a header and a footer of each file.

    Raises:
        InvalidArgumentError: A length is negative or `size` is 0; the compression is unknown.
    """
    for what, value, least in (
        ("record_bytes", size, 1),
        ("header_bytes", header, 0),
        ("footer_bytes", footer, 0),
    ):
        if value < least:
            raise InvalidArgumentError(message=f"{what} must be >= {least} not {value}")

    def pieces(stream: BinaryIO, name: bytes) -> Iterator[bytes]:
        if len(stream.read(header)) < header:
            raise DataLossError(
                message=f"{as_text(name)} is shorter than its header of {header} bytes"
            )
        window = stream.read(size + footer)
        while len(window) == size + footer:
            yield window[:size]
            window = window[size:] + stream.read(size)
        if len(window) != footer:
            raise InvalidArgumentError(
                message=f"Excess bytes of {len(window) - footer} in the body of file "
                f"{as_text(name)}, which should be multiple of record_bytes ({size})."
            )

    return _of_files(names, kind, pieces)


def write_records(source: Dataset, name: bytes, kind: str, step: Any) -> None:
    """Writes the scalar strings of a dataset to a TFRecord file."""
    iterator = source.iterate()
    try:
        with open_file(name, "wb") as file, compressing(file, kind) as stream:
            while (element := iterator.next(step)) is not None:
                step.check_cancelled()
                stream.write(frame_record(bytes(element[0].item())))
    finally:
        iterator.close()


def of_parquet(names: Sequence[bytes], columns: Sequence[str], types: Sequence[DType]) -> Dataset:
    """Returns rows of the given columns of Parquet files, which are read in batches of rows.

    Args:
        names: Paths or URIs.
        columns: The columns, one per component.
        types: The dtype of each.

    Raises, at the first element of the file:
        InvalidArgumentError: A file belongs to a table in another format, such as Delta.
        DataLossError: A file is damaged.
    """

    def blocks(name: bytes) -> Iterator[Element]:
        require_arrow()
        from pyarrow import parquet

        require_no_tables([name])
        with open_file(name) as stream, _damage(name), parquet.ParquetFile(stream) as file:
            _require_columns(file.schema_arrow.names, columns, as_text(name))
            for batch in file.iter_batches(columns=list(columns)):
                yield _arrays(batch, columns, types)

    return of_blocks(lambda: _FileByFile(names, blocks))


def require_no_tables(paths: Iterable[str | bytes]) -> None:
    """Checks that Parquet files do not belong to a table in another format.

    Args:
        paths: Paths or URIs.

    Raises:
        InvalidArgumentError: One belongs to a table whose rows are defined by a log, see
            `table_formats`.
    """
    folders: dict[str, str] = {}
    for path in map(as_text, paths):
        folders.setdefault(path if is_directory(path) else os.path.dirname(path) or ".", path)
    for folder, path in folders.items():
        table = table_of(folder)
        if table is not None:
            raise InvalidArgumentError(message=table.refusal(path))


def of_arrow(names: Sequence[bytes], columns: Sequence[str], types: Sequence[DType]) -> Dataset:
    """Like `of_parquet`, for Arrow IPC files, in the file or the stream format."""

    def blocks(name: bytes) -> Iterator[Element]:
        with open_file(name) as stream, _damage(name):
            for batch in _arrow_batches(stream):
                _require_columns(batch.schema.names, columns, as_text(name))
                yield _arrays(batch, columns, types)

    return of_blocks(lambda: _FileByFile(names, blocks))


def _arrow_batches(stream: BinaryIO) -> Iterator[Any]:
    """Yields the record batches of a file in either of Arrow's IPC formats.

    They are validated: Arrow trusts sizes and offsets, even those that point out of bounds.
    """
    require_arrow()
    from pyarrow import ipc

    start = stream.read(6)
    stream.seek(0)
    if start == b"ARROW1":
        reader = ipc.open_file(stream)
        batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
    else:
        batches = iter(ipc.open_stream(stream))
    for batch in batches:
        batch.validate(full=True)
        yield batch


@contextlib.contextmanager
def _damage(name: str | bytes) -> Iterator[None]:
    """Converts Arrow's errors about a file into a DataLossError that names it."""
    require_arrow()
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise DataLossError(message=f"{as_text(name)} is damaged: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise DataLossError(message=f"{as_text(name)} is damaged: {error}") from error


def _require_columns(have: Sequence[str], wanted: Sequence[str], name: str) -> None:
    missing = [column for column in wanted if column not in have]
    if missing:
        raise NotFoundError(
            message=f"{name} has no columns {missing}; it has {', '.join(have) or 'none'}"
        )


def _arrays(batch: Any, columns: Sequence[str], types: Sequence[DType]) -> Element:
    require_arrow()
    from sparkflow_runtime.resources.datasets.arrow_columns import column_array

    pairs = zip(columns, types, strict=True)
    return tuple([column_array(batch.column(name), name, dtype) for name, dtype in pairs])
