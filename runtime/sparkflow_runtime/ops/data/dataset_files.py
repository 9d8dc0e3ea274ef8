"""Datasets of files as ops. Some are ours: TensorFlow has no Parquet, Arrow or Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.data.dataset import OUTPUTS, DatasetOp
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import FILES, Array, NodeView
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, list_attr, string_attr
from sparkflow_runtime.ops.strings.string_arrays import scalar_text, strings_of
from sparkflow_runtime.resources.datasets import file_datasets as dataset_files, hosted_datasets
from sparkflow_runtime.resources.datasets.dataset import Dataset

_METADATA = {"metadata": string_attr("")}


def _names(filenames: Array) -> list[bytes]:
    if np.ndim(filenames) > 1:
        raise InvalidArgumentError(message="`filenames` must be a scalar or a vector.")
    return strings_of(np.ravel(filenames))


def _kind(compression: Array) -> str:
    return scalar_text(compression, "compression_type").decode("utf-8", "replace")


@register
class TFRecordDataset(DatasetOp):
    """The records of files."""

    reaches = frozenset({FILES})
    inputs = "filenames: string, compression_type: string, buffer_size: int64"
    attrs = _METADATA

    def compute(self, xp: Any, filenames: Array, compression: Array, _: Array) -> Dataset:
        """Records."""
        return dataset_files.of_records(_names(filenames), _kind(compression))


@register
class TextLineDataset(DatasetOp):
    """The lines of files."""

    reaches = frozenset({FILES})
    inputs = "filenames: string, compression_type: string, buffer_size: int64"
    attrs = _METADATA

    def compute(self, xp: Any, filenames: Array, compression: Array, _: Array) -> Dataset:
        """Lines."""
        return dataset_files.of_lines(_names(filenames), _kind(compression))


@register
class SparkflowCsvRecordDataset(DatasetOp):
    """The undecoded records of CSV files: lines, except for line ends in quotes."""

    is_ours = True
    reaches = frozenset({FILES})
    inputs = "filenames: string, compression_type: string"
    attrs = {"field_delim": string_attr(","), "use_quote_delim": bool_attr(True)}

    def compute(
        self,
        xp: Any,
        filenames: Array,
        compression: Array,
        *,
        field_delim: str,
        use_quote_delim: bool,
    ) -> Dataset:
        """Records."""
        delimiter = field_delim.encode()
        if len(delimiter) != 1:
            raise InvalidArgumentError(
                message=f"field_delim should be only 1 char, got {field_delim!r}"
            )
        return dataset_files.of_csv_records(
            _names(filenames), _kind(compression), delimiter, use_quote_delim
        )


@register
class FixedLengthRecordDataset(DatasetOp):
    """Fixed-length records of files."""

    reaches = frozenset({FILES})
    inputs = (
        "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, "
        "buffer_size: int64"
    )
    attrs = _METADATA

    def compute(
        self, xp: Any, filenames: Array, header: Array, size: Array, footer: Array, _: Array
    ) -> Dataset:
        """Pieces."""
        return dataset_files.of_pieces(_names(filenames), int(header), int(size), int(footer), "")


@register
class FixedLengthRecordDatasetV2(DatasetOp):
    """Fixed-length records of files that may be compressed."""

    reaches = frozenset({FILES})
    inputs = f"{FixedLengthRecordDataset.inputs}, compression_type: string"
    attrs = _METADATA

    def compute(
        self,
        xp: Any,
        filenames: Array,
        header: Array,
        size: Array,
        footer: Array,
        _: Array,
        compression: Array,
    ) -> Dataset:
        """Pieces."""
        return dataset_files.of_pieces(
            _names(filenames), int(header), int(size), int(footer), _kind(compression)
        )


@register
class DatasetToTFRecord(DatasetOp):
    """Writes the scalar strings of a dataset to a TFRecord file."""

    reaches = frozenset({FILES})
    inputs = "input_dataset: variant, filename: string, compression_type: string"
    outputs = ""
    attrs: ClassVar = {}
    takes_step = True

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""

        def run(step: StepContext, source: Dataset, filename: Array, compression: Array) -> None:
            name = scalar_text(filename, "filename")
            dataset_files.write_records(source, name, _kind(compression), step)

        return run


class _Columns(DatasetOp):
    reaches = frozenset({FILES})
    inputs = "filenames: string"
    attrs = {"columns": list_attr("string", minimum=1), **OUTPUTS}


@register
class SparkflowParquetDataset(_Columns):
    """The rows of Parquet files."""

    is_ours = True

    def compute(
        self, xp: Any, filenames: Array, *, columns: Sequence[str], output_types: Sequence[DType]
    ) -> Dataset:
        """Rows."""
        return dataset_files.of_parquet(_names(filenames), columns, output_types)


@register
class SparkflowArrowDataset(_Columns):
    """The rows of files in Arrow's IPC format."""

    is_ours = True

    def compute(
        self, xp: Any, filenames: Array, *, columns: Sequence[str], output_types: Sequence[DType]
    ) -> Dataset:
        """Rows."""
        return dataset_files.of_arrow(_names(filenames), columns, output_types)


@register
class SparkflowHostedDataset(DatasetOp):
    """Batches of rows from the process that hosts the task."""

    is_ours = True
    reaches = frozenset({FILES})  # its string may be the location of rows
    inputs = ""
    attrs = {"source": string_attr(), **OUTPUTS}

    def compute(self, xp: Any, *, source: str) -> Dataset:
        """Batches."""
        return hosted_datasets.find(source)
