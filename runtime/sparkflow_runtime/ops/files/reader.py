"""Readers as ops: lines, records and whole files, whose names come from a queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.events.records import read_records
from sparkflow_runtime.files.compression import check_kind, expanding
from sparkflow_runtime.files.system import open_file, read_file
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import FILES, Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, string_attr
from sparkflow_runtime.ops.strings.string_arrays import array_of, scalar_text
from sparkflow_runtime.resources.queue import Queue
from sparkflow_runtime.resources.reader import Reader, Record
from sparkflow_runtime.shapes import Shape

_NAMES = {"container": string_attr(""), "shared_name": string_attr("")}


class _ReaderOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


class _MakesReader(_ReaderOp):
    """A reader: of the task if it has a shared_name, else of its node in its session."""

    outputs = "reader_handle: resource"
    reaches = frozenset({FILES})
    single: ClassVar[bool] = False
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or makes the reader; the kernel returns it.

        Raises:
            InvalidArgumentError: The reader of that name has another kind: a graph from a file may
                have one that accesses no files, and must not obtain one that reads files.
        """
        shared: str = node.attrs["shared_name"]
        scope = context.resources if shared else context.session
        records = self.records(node)
        name = shared or node.name
        reader = scope.get_or_create(
            node.attrs["container"],
            name,
            Reader,
            lambda: Reader(name, records, self.single, self.op_type),
        )
        if reader.kind != self.op_type:
            raise InvalidArgumentError(
                message=f"The reader {name!r} is a {reader.kind}, not a {self.op_type}"
            )
        return lambda: reader

    def records(self, node: NodeView) -> Callable[[bytes], Iterator[Record]]:
        """Maps a file name to its records."""
        raise NotImplementedError(self.op_type)


def _key(name: bytes, number: int) -> bytes:
    return b"%s:%d" % (name, number)


@register
class WholeFileReaderV2(_MakesReader):
    """Returns each file as one record, its name as the key."""

    attrs = _NAMES
    single = True

    def records(self, node: NodeView) -> Callable[[bytes], Iterator[Record]]:
        """One."""

        def whole(name: bytes) -> Iterator[Record]:
            yield name, read_file(name)

        return whole


@register
class IdentityReaderV2(_MakesReader):
    """Returns the names themselves as records."""

    attrs = _NAMES
    reaches = frozenset()
    single = True

    def records(self, node: NodeView) -> Callable[[bytes], Iterator[Record]]:
        """One."""
        return lambda name: iter([(name, name)])


@register
class TextLineReaderV2(_MakesReader):
    r"""Returns the lines of files without \n or \r\n; keys are `name:line`, from 1."""

    attrs = {"skip_header_lines": int_attr(0), **_NAMES}

    def records(self, node: NodeView) -> Callable[[bytes], Iterator[Record]]:
        """One per line."""
        skipped = node.attrs["skip_header_lines"]

        def lines(name: bytes) -> Iterator[Record]:
            with open_file(name) as stream:
                for number, line in enumerate(stream, 1):
                    if number > skipped:
                        yield _key(name, number), line.removesuffix(b"\n").removesuffix(b"\r")

        return lines


@register
class TFRecordReaderV2(_MakesReader):
    """Returns the records of TFRecord files; keys are `name:offset`."""

    attrs = {**_NAMES, "compression_type": string_attr("")}

    def records(self, node: NodeView) -> Callable[[bytes], Iterator[Record]]:
        """One per record.

        Raises:
            InvalidArgumentError: The compression is unknown.
        """
        kind = check_kind(node.attrs["compression_type"])

        def records(name: bytes) -> Iterator[Record]:
            offset = 0
            with expanding(open_file(name, seeks=False), kind) as stream:
                for data in read_records(stream):
                    yield _key(name, offset), data
                    offset += len(data) + 16

        return records


@register
class FixedLengthRecordReaderV2(_MakesReader):
    """Returns records of fixed length; keys are `name:number`."""

    attrs = {
        "header_bytes": int_attr(0),
        "record_bytes": int_attr(),
        "footer_bytes": int_attr(0),
        "hop_bytes": int_attr(0),
        **_NAMES,
        "encoding": string_attr(""),
    }

    def records(self, node: NodeView) -> Callable[[bytes], Iterator[Record]]:
        """One per piece.

        Raises:
            InvalidArgumentError: A length is negative or 0, or the encoding is unknown.
        """
        attrs = node.attrs
        header, size, footer, hop = (
            attrs[f"{part}_bytes"] for part in ("header", "record", "footer", "hop")
        )
        for what, value, least in (
            ("header_bytes", header, 0),
            ("record_bytes", size, 1),
            ("footer_bytes", footer, 0),
            ("hop_bytes", hop, 0),
        ):
            if value < least:
                raise InvalidArgumentError(message=f"{what} must be >= {least} not {value}")
        kind = check_kind(attrs.get("encoding", ""))  # the first version of the op has none

        def pieces(name: bytes) -> Iterator[Record]:
            with expanding(open_file(name), kind) as stream:
                yield from _pieces(stream, name, header, size, footer, hop or size)

        return pieces


def _pieces(
    stream: BinaryIO, name: bytes, header: int, size: int, footer: int, hop: int
) -> Iterator[Record]:
    """Yields records of `size` bytes, every `hop` bytes, between header and footer."""
    if len(stream.read(header)) < header:
        raise DataLossError(message=f"{name.decode()} is shorter than its header of {header} bytes")
    window = stream.read(size + footer)
    number = 0
    while len(window) == size + footer:
        yield _key(name, number), window[:size]
        number += 1
        if hop >= len(window):
            stream.read(hop - len(window))
            window = b""
        else:
            window = window[hop:]
        window += stream.read(size + footer - len(window))


class _Reads(_ReaderOp):
    takes_step = True
    may_block = True


@register
class ReaderReadV2(_Reads):
    """Reads the next record; waits for a file name if it needs one."""

    inputs = "reader_handle: resource, queue_handle: resource"
    outputs = "key: string, value: string"

    def infer(self, node: Inference) -> list[Shape]:
        """Two scalars."""
        return [shapes.SCALAR, shapes.SCALAR]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.reader.Reader.read`."""

        def run(step: StepContext, reader: Reader, queue: Queue) -> tuple[Array, Array]:
            key, value = reader.read(queue, step)
            return array_of([key], ()), array_of([value], ())

        return run


@register
class ReaderReadUpToV2(_Reads):
    """Reads several records of one file, at least one."""

    inputs = "reader_handle: resource, queue_handle: resource, num_records: int64"
    outputs = "keys: string, values: string"

    def infer(self, node: Inference) -> list[Shape]:
        """Two vectors."""
        node.with_rank(2, 0, "Shape")
        return [(None,), (None,)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.reader.Reader.read_up_to`."""

        def run(step: StepContext, reader: Reader, queue: Queue, count: Array) -> Any:
            found = reader.read_up_to(queue, int(count), step)
            keys, values = ([record[part] for record in found] for part in range(2))
            return array_of(keys, (len(found),)), array_of(values, (len(found),))

        return run


class _Counts(_ReaderOp):
    inputs = "reader_handle: resource"
    infer = scalars


@register
class ReaderNumRecordsProducedV2(_Counts):
    """The number of records that a reader has returned."""

    outputs = "records_produced: int64"

    def compute(self, xp: Any, reader: Reader) -> Array:
        """The count."""
        return np.int64(reader.produced())


@register
class ReaderNumWorkUnitsCompletedV2(_Counts):
    """The number of files that a reader has finished."""

    outputs = "units_completed: int64"

    def compute(self, xp: Any, reader: Reader) -> Array:
        """The count."""
        return np.int64(reader.finished())


@register
class ReaderSerializeStateV2(_Counts):
    """The state of a reader as a string."""

    outputs = "state: string"

    def compute(self, xp: Any, reader: Reader) -> Array:
        """Possible only between two files."""
        return array_of([reader.serialize_state()], ())


@register
class ReaderRestoreStateV2(_ReaderOp):
    """Restores the state of a reader."""

    inputs = "reader_handle: resource, state: string"

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs."""
        node.with_rank(1, 0, "Shape")
        return []

    def compute(self, xp: Any, reader: Reader, state: Array) -> None:
        """Fails for an invalid state."""
        reader.restore_state(scalar_text(state, "state"))


@register
class ReaderResetV2(_ReaderOp):
    """Resets a reader."""

    inputs = "reader_handle: resource"

    def compute(self, xp: Any, reader: Reader) -> None:
        """Closes the open file."""
        reader.reset()
