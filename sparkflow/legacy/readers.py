"""Readers such as `tf.TextLineReader`, which take file names from a queue."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.io.tfrecord import TFRecordOptions
from sparkflow_runtime.dtypes import int64, string


@export("ReaderBase")
class ReaderBase:
    """Base of the readers.

    Args:
        reader_ref: The handle.
        supports_serialize: Whether its state can be saved.
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle of the reader."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether its state can be saved."""
        return self._supports_serialize

    def read(self, queue: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Returns the next record.

        Args:
            queue: A queue of file names, or its handle.
            name: The node's name.

        Returns:
            Key and value, scalar strings.
        """
        key, value = apply_op("ReaderReadV2", self._reader_ref, _handle(queue), name=name)
        return key, value

    def read_up_to(
        self, queue: Any, num_records: Any, name: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns between one and `num_records` records of one file.

        Args:
            queue: A queue of file names, or its handle.
            num_records: The maximum number of records.
            name: The node's name.

        Returns:
            Keys and values, vectors of strings.
        """
        count = convert_to_tensor(num_records, int64)
        keys, values = apply_op(
            "ReaderReadUpToV2", self._reader_ref, _handle(queue), count, name=name
        )
        return keys, values

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Returns the number of records read so far, int64."""
        return output_of("ReaderNumRecordsProducedV2", self._reader_ref, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Returns the number of files finished so far, int64."""
        return output_of("ReaderNumWorkUnitsCompletedV2", self._reader_ref, name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Returns the state as a string; only possible between two files."""
        return output_of("ReaderSerializeStateV2", self._reader_ref, name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """Restores a serialized state."""
        given = convert_to_tensor(state, string)
        operation: Operation = apply_op("ReaderRestoreStateV2", self._reader_ref, given, name=name)
        return operation

    def reset(self, name: str | None = None) -> Operation:
        """Resets the reader to its initial state."""
        operation: Operation = apply_op("ReaderResetV2", self._reader_ref, name=name)
        return operation


def _handle(queue: Any) -> Tensor:
    return queue if isinstance(queue, Tensor) else queue.queue_ref


@export("WholeFileReader")
class WholeFileReader(ReaderBase):
    """Reads each file as one record; the key is its name."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(apply_op("WholeFileReaderV2", name=name), supports_serialize=True)


@export("IdentityReader")
class IdentityReader(ReaderBase):
    """Returns the names themselves, as keys and as values."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(apply_op("IdentityReaderV2", name=name), supports_serialize=True)


@export("TextLineReader")
class TextLineReader(ReaderBase):
    """Reads lines of files, without line ends; keys are `name:line`.

    Args:
        skip_header_lines: The number of lines to skip at the start of each file.
        name: The node's name.
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(
            apply_op("TextLineReaderV2", skip_header_lines=skip_header_lines or 0, name=name)
        )


@export("FixedLengthRecordReader")
class FixedLengthRecordReader(ReaderBase):
    """Reads records of fixed length; keys are `name:number`.

    Args:
        record_bytes: The length of a record.
        header_bytes: The number of bytes to skip at the start of each file.
        footer_bytes: The number of bytes to skip at its end.
        hop_bytes: The distance between the starts of records; `record_bytes` if None or 0.
        name: The node's name.
        encoding: `ZLIB` or `GZIP` for compressed files.
    """

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        super().__init__(
            apply_op(
                "FixedLengthRecordReaderV2",
                record_bytes=record_bytes,
                header_bytes=header_bytes or 0,
                footer_bytes=footer_bytes or 0,
                hop_bytes=hop_bytes or 0,
                encoding=encoding or "",
                name=name,
            )
        )


@export("TFRecordReader")
class TFRecordReader(ReaderBase):
    """Reads records of TFRecord files; keys are `name:offset`.

    Args:
        name: The node's name.
        options: `TFRecordOptions`, for compressed files.
    """

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        kind = TFRecordOptions.get_compression_type_string(options)
        super().__init__(apply_op("TFRecordReaderV2", compression_type=kind, name=name))
