"""Datasets of the records, lines and fixed-length pieces of files."""

from __future__ import annotations

from typing import Any

from sparkflow.data import structure
from sparkflow.data.dataset import Dataset
from sparkflow.data.sources import dataset_of
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import int64

_TEXT = structure.Component(dtypes.string, ())
_BUFFER_BYTES = 256 * 1024


def _number(value: Any, default: int, name: str) -> Tensor:
    return convert_to_tensor(default if value is None else value, int64, name)


def _compression(value: Any) -> Tensor:
    return convert_to_tensor("" if value is None else value, dtypes.string, "compression_type")


def _filenames(filenames: Any) -> Any:
    if isinstance(filenames, Dataset):
        component = filenames._structure
        if not isinstance(component, structure.Component) or component.dtype is not dtypes.string:
            raise TypeError("`filenames` must be a `tf.data.Dataset` of `tf.string` elements.")
        if component.shape not in ((), None):
            raise TypeError(
                "`filenames` must be a `tf.data.Dataset` of scalar `tf.string` elements."
            )
        return filenames
    return convert_to_tensor(filenames, dtypes.string, "filenames")


class TFRecordDataset(Dataset):
    """The records of TFRecord files, as scalar strings.

    Args:
        filenames: One or several paths; a tensor or a dataset of paths.
        compression_type: "", "GZIP" or "ZLIB".
        buffer_size: Accepted for compatibility, in bytes.
        num_parallel_reads: The number of files read in parallel, with interleaved records.
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        names = _filenames(filenames)
        kind, size = _compression(compression_type), _number(buffer_size, _BUFFER_BYTES, "buffer")

        def records(filename: Any) -> Dataset:
            return dataset_of("TFRecordDataset", [filename, kind, size], _TEXT)

        if isinstance(names, Dataset) or num_parallel_reads is not None:
            if not isinstance(names, Dataset):
                names = Dataset.from_tensor_slices(as_vector(names))
            if num_parallel_reads is None:
                made = names.flat_map(records)
            else:
                made = names.interleave(records, num_parallel_reads, 1, num_parallel_reads)
        else:
            made = records(names)
        super().__init__(made._variant_tensor, _TEXT)


def as_vector(names: Tensor) -> Tensor:
    """Returns one or any number of names as a vector."""
    graph = names.graph
    vector: Tensor = graph.apply("Reshape", [names, [-1]], {})
    return vector


class TextLineDataset(Dataset):
    """The lines of files, without line ends, as scalar strings.

    Args:
        filenames: One or several paths; a tensor or a dataset of paths.
        compression_type: "", "GZIP" or "ZLIB".
        buffer_size: Accepted for compatibility, in bytes.
        num_parallel_reads: Accepted; files are read in order.
        name: Accepted.
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        names = _filenames(filenames)
        kind, size = _compression(compression_type), _number(buffer_size, _BUFFER_BYTES, "buffer")

        def lines(filename: Any) -> Dataset:
            return dataset_of("TextLineDataset", [filename, kind, size], _TEXT)

        made = names.flat_map(lines) if isinstance(names, Dataset) else lines(names)
        super().__init__(made._variant_tensor, _TEXT)


class FixedLengthRecordDataset(Dataset):
    """Fixed-length pieces of files, as scalar strings.

    Args:
        filenames: One or several paths; a tensor or a dataset of paths.
        record_bytes: The length of a piece.
        header_bytes: The number of bytes to skip at the start of each file.
        footer_bytes: The number of bytes to skip at the end of each file.
        buffer_size: Accepted for compatibility, in bytes.
        compression_type: "", "GZIP" or "ZLIB".
        num_parallel_reads: Accepted; files are read in order.
        name: Accepted.
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        names = _filenames(filenames)
        inputs = [
            _number(header_bytes, 0, "header_bytes"),
            _number(record_bytes, 0, "record_bytes"),
            _number(footer_bytes, 0, "footer_bytes"),
            _number(buffer_size, _BUFFER_BYTES, "buffer_size"),
            _compression(compression_type),
        ]

        def pieces(filename: Any) -> Dataset:
            return dataset_of("FixedLengthRecordDatasetV2", [filename, *inputs], _TEXT)

        made = names.flat_map(pieces) if isinstance(names, Dataset) else pieces(names)
        super().__init__(made._variant_tensor, _TEXT)
