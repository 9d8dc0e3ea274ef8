"""TFRecord files outside of graphs: writer, reader, options."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, ClassVar

from sparkflow._api import export
from sparkflow_runtime.events.records import frame_record, read_records
from sparkflow_runtime.files.compression import check_kind, compressing, expanding
from sparkflow_runtime.files.errors import translated
from sparkflow_runtime.files.system import as_text, open_file


@export("python_io.TFRecordCompressionType", "io.TFRecordCompressionType")
class TFRecordCompressionType:
    """How a TFRecord file is compressed."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


@export("python_io.TFRecordOptions", "io.TFRecordOptions")
class TFRecordOptions:
    """How TFRecord files are written and read.

    Args:
        compression_type: `"GZIP"`, `"ZLIB"`, `""` or None, or a `TFRecordCompressionType`.
        flush_mode: Accepted; zlib chooses when it writes.
        input_buffer_size: Accepted.
        output_buffer_size: Accepted.
        window_bits: Accepted; zlib's default is used.
        compression_level: From 0 (fast) to 9 (small); None for zlib's default.
        compression_method: Accepted.
        mem_level: Accepted.
        compression_strategy: Accepted.

    Raises:
        ValueError: The compression is none of these.
    """

    compression_type_map: ClassVar[dict[int, str]] = {
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
        TFRecordCompressionType.NONE: "",
    }

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        self.get_compression_type_string(compression_type)  # refuses what is none
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """The name of the compression in options, in a number, or in the name itself.

        Raises:
            ValueError: There is no such compression.
        """
        if not options:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if isinstance(options, str) and options in cls.compression_type_map.values():
            return options
        if options in cls.compression_type_map:
            return cls.compression_type_map[options]
        raise ValueError(f'Not a valid compression_type: "{options}"')


@export("python_io.TFRecordWriter", "io.TFRecordWriter")
class TFRecordWriter:
    """Writes records to a TFRecord file.

    Args:
        path: The file, replaced if it exists.
        options: `TFRecordOptions`, or a compression as they take it.

    Raises:
        NotFoundError: Its directory does not exist.
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        kind = check_kind(TFRecordOptions.get_compression_type_string(options))
        level = getattr(options, "compression_level", None)
        self._path = as_text(path)
        self._stream = compressing(open_file(path, "wb"), kind, -1 if level is None else level)

    def write(self, record: Any) -> None:
        """Appends one record.

        Args:
            record: Bytes, or text to be written in UTF-8.

        Raises:
            TypeError: It is something else.
        """
        if isinstance(record, str):
            data = record.encode("utf-8")
        elif isinstance(record, bytes | bytearray):
            data = bytes(record)
        else:
            raise TypeError(
                f"write() takes a record of bytes or str, got {record!r} of type "
                f"{type(record).__name__}; for messages, give their SerializeToString()"
            )
        with translated(self._path):
            self._stream.write(frame_record(data))

    def flush(self) -> None:
        """Hands what was written to the operating system."""
        with translated(self._path):
            self._stream.flush()

    def close(self) -> None:
        """Completes the file; may be called again."""
        with translated(self._path):
            self._stream.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        stream = getattr(self, "_stream", None)
        if stream is not None:
            stream.close()


@export("python_io.tf_record_iterator", "io.tf_record_iterator")
def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a TFRecord file, one after the other.

    Args:
        path: The file.
        options: `TFRecordOptions`, or a compression as they take it.

    Raises:
        NotFoundError: There is no such file.
        DataLossError: It is damaged; the records before the damage have been given.
    """
    kind = check_kind(TFRecordOptions.get_compression_type_string(options))
    return _records(path, kind)


def _records(path: Any, kind: str) -> Iterator[bytes]:
    with expanding(open_file(path), kind) as stream:
        yield from read_records(stream)
