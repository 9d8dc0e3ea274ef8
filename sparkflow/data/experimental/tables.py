"""Datasets of CSV files and of serialized Examples."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparkflow.data import structure
from sparkflow.data.dataset import Dataset
from sparkflow.data.readers import TFRecordDataset, as_vector
from sparkflow.data.sources import dataset_of
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.files.parsing import decode_csv, parse_example
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType, as_dtype
from sparkflow_runtime.files import system
from sparkflow_runtime.files.compression import expanding

_LARGEST_INT32 = 2**31 - 1


class CsvDataset(Dataset):
    """The rows of CSV files, as tuples of scalars.

    Args:
        filenames: One or several paths; a tensor or a dataset of paths.
        record_defaults: The dtype (for required values) or the default value of each column.
        compression_type: "", "GZIP" or "ZLIB".
        buffer_size: Accepted for compatibility.
        header: Whether to skip the first line of each file.
        field_delim: The field delimiter.
        use_quote_delim: Whether double quotes enclose fields.
        na_value: A string that represents a missing value.
        select_cols: The indices of the columns, ascending; all by default.
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: Any = None,
        buffer_size: Any = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
    ) -> None:
        defaults = [_default(each) for each in record_defaults]

        def rows(filename: Tensor) -> Dataset:
            kind = "" if compression_type is None else compression_type
            records = dataset_of(
                "SparkflowCsvRecordDataset",
                [filename, convert_to_tensor(kind, dtypes.string, "compression_type")],
                structure.Component(dtypes.string, ()),
                field_delim=field_delim,
                use_quote_delim=use_quote_delim,
            )
            return records.skip(1) if header else records

        def fields(line: Tensor) -> tuple[Tensor, ...]:
            found = decode_csv(
                line, defaults, field_delim, use_quote_delim, None, na_value, select_cols
            )
            found[0].op._set_attr("_blank_lines", True)  # they are records here
            return tuple(found)

        names = filenames
        if not isinstance(filenames, Dataset):
            given = convert_to_tensor(filenames, dtypes.string, "filenames")
            names = Dataset.from_tensor_slices(as_vector(given))
        made = names.flat_map(rows).map(fields)
        super().__init__(made._variant_tensor, made._structure)


def _default(value: Any) -> Any:
    """Returns the default for `decode_csv`: an empty tensor if a value is required."""
    try:
        dtype = as_dtype(value)
    except (TypeError, ValueError):
        return value
    return np.zeros(0, dtype.as_numpy_dtype)


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: Any = None,
    num_parallel_reads: int = 1,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
) -> Dataset:
    """Returns batches of the rows of CSV files, as dictionaries by column.

    Args:
        file_pattern: One or several patterns; the files are read now to find the columns.
        batch_size: Rows per batch; all batches are full if rows repeat endlessly.
        column_names: The columns; None for those in the first line of the first file.
        column_defaults: The dtype or default value of each column; None to infer them from the
            first rows (int32, int64, float32, float64 or string).
        label_name: A column that is returned separately: elements are then pairs.
        select_columns: Names or indices of the columns to use; None for all.
        field_delim: The field delimiter.
        use_quote_delim: Whether double quotes enclose fields.
        na_value: A string that represents a missing value.
        header: Whether the files' first lines name the columns.
        num_epochs: The number of passes over all rows; None for endless.
        shuffle: Whether to shuffle.
        shuffle_buffer_size: See `Dataset.shuffle`.
        shuffle_seed: See `Dataset.shuffle`.
        prefetch_buffer_size: Batches computed in advance; None for one.
        num_parallel_reads: Files read at once.
        sloppy: Accepted for compatibility.
        num_rows_for_inference: The number of rows from which dtypes are inferred; None for all.
        compression_type: "", "GZIP" or "ZLIB".
        ignore_errors: Whether to skip rows that cannot be parsed.

    Raises:
        ValueError: No file matches, or names and columns do not match.
    """
    names = sorted(system.glob(file_pattern))
    if not names:
        raise ValueError(f"No files match `file_pattern` {file_pattern}.")

    def read(limit: int | None) -> list[list[str]]:
        return _first_rows(names[0], compression_type or "", field_delim, use_quote_delim, limit)

    if column_names is None:
        if not header:
            raise ValueError("Cannot infer column names without a header line.")
        column_names = read(1)[0]
    if len(column_names) != len(set(column_names)):
        raise ValueError("Cannot have duplicate column names.")
    columns = _selected(column_names, select_columns)
    chosen = [column_names[index] for index in columns]
    if label_name is not None and label_name not in chosen:
        raise ValueError("`label_name` provided must be one of the columns.")
    if column_defaults is None:
        rows = read(None if num_rows_for_inference is None else num_rows_for_inference + header)
        for row in rows[header:]:
            if len(row) != len(column_names):
                raise ValueError(
                    f"A row of {names[0]} has {len(row)} columns, and there are "
                    f"{len(column_names)} column names: {list(column_names)}. Got {row}; name all "
                    "columns, and choose some with `select_columns`."
                )
        column_defaults = [
            _inferred([row[index] for row in rows[header:] if index < len(row)], na_value)
            for index in columns
        ]
    elif len(column_defaults) != len(chosen):
        raise ValueError("`column_defaults` must have one entry per column that is selected.")
    defaults = column_defaults

    def of_file(filename: Tensor) -> Dataset:
        return CsvDataset(
            filename,
            defaults,
            compression_type,
            None,
            header,
            field_delim,
            use_quote_delim,
            na_value,
            None if select_columns is None else columns,
        )

    dataset = Dataset.from_tensor_slices(names)
    if shuffle:
        dataset = dataset.shuffle(len(names), shuffle_seed)
    dataset = dataset.interleave(of_file, max(num_parallel_reads, 1))
    if ignore_errors:
        dataset = dataset._changed("IgnoreErrorsDataset", [], dataset._structure)
    if shuffle:
        dataset = dataset.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        dataset = dataset.repeat(num_epochs)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None)

    def as_features(*values: Tensor) -> Any:
        features = dict(zip(chosen, values, strict=True))
        if label_name is None:
            return features
        label = features.pop(label_name)
        return features, label

    return dataset.map(as_features).prefetch(
        1 if prefetch_buffer_size is None else prefetch_buffer_size
    )


def _first_rows(
    name: str, compression: str, delimiter: str, quotes: bool, limit: int | None
) -> list[list[str]]:
    with expanding(system.open_file(name), compression) as stream:
        text = io.TextIOWrapper(stream, "utf-8", newline="")
        reader = (
            csv.reader(text, delimiter=delimiter)
            if quotes
            else csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        )
        return [row for row, _ in zip(reader, range(limit or _LARGEST_INT32), strict=False)]


def _selected(names: Sequence[str], wanted: Sequence[Any] | None) -> list[int]:
    if wanted is None:
        return list(range(len(names)))
    found = []
    for each in wanted:
        if isinstance(each, str) and each not in names:
            raise ValueError(f"Column {each!r} is not among {list(names)}.")
        index = names.index(each) if isinstance(each, str) else int(each)
        if not 0 <= index < len(names):
            raise ValueError(f"Column {each!r} is not among {len(names)} columns.")
        found.append(index)
    if len(found) != len(set(found)):
        raise ValueError("`select_columns` has a column twice.")
    return sorted(found)


def _inferred(texts: Sequence[str], na_value: str) -> DType | Any:
    """Returns the default of the narrowest dtype that fits all strings."""
    kinds: list[DType] = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
    given = [text for text in texts if text not in ("", na_value)]
    for dtype in kinds:
        if all(_fits(text, dtype) for text in given):
            return np.zeros(1, dtype.as_numpy_dtype)
    return np.array([b""], object)


def _fits(text: str, dtype: DType) -> bool:
    try:
        if dtype.is_integer:
            return bool(dtype.min <= int(text) <= dtype.max)
        number = float(text)
    except ValueError:
        return False
    return dtype is dtypes.float64 or bool(np.isinf(number)) or abs(number) <= dtype.max


def parse_example_dataset(
    features: Mapping[str, Any], num_parallel_calls: Any = 1, deterministic: Any = None
) -> Callable[[Dataset], Dataset]:
    """Parses vectors of serialized Examples.

    Args:
        features: See `tf.io.parse_example`.
        num_parallel_calls: The number of batches parsed in parallel.
        deterministic: Accepted for compatibility; the order is kept.

    Raises:
        ValueError: `features` is None.
    """
    if features is None:
        raise ValueError("Missing: features was None.")
    return lambda dataset: dataset.map(
        lambda serialized: parse_example(serialized, features), num_parallel_calls
    )


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Any],
    reader: Any = None,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: Any = None,
    reader_num_threads: int = 1,
    parser_num_threads: int = 2,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Returns batches of the Examples in files, as dictionaries by feature.

    Args:
        file_pattern: One or several patterns.
        batch_size: Examples per batch.
        features: See `tf.io.parse_example`.
        reader: Maps a path to a dataset of serialized Examples; `TFRecordDataset` by default.
        label_key: A feature that is returned separately: elements are then pairs.
        reader_args: Additional arguments of `reader`.
        num_epochs: The number of passes over all Examples; None for endless.
        shuffle: Whether to shuffle.
        shuffle_buffer_size: See `Dataset.shuffle`.
        shuffle_seed: See `Dataset.shuffle`.
        prefetch_buffer_size: Batches computed in advance; None for one.
        reader_num_threads: Files read at once.
        parser_num_threads: Batches parsed at once.
        sloppy_ordering: Accepted for compatibility.
        drop_final_batch: Whether to drop a last batch that is too short.

    Raises:
        ValueError: `label_key` is not a feature.
    """
    if label_key is not None and label_key not in features:
        raise ValueError("`label_key` provided must be one of the `features` keys.")
    make = TFRecordDataset if reader is None else reader
    files = Dataset.list_files(file_pattern, shuffle, shuffle_seed)
    dataset = files.interleave(
        lambda name: make(name, *(reader_args or ())), max(reader_num_threads, 1)
    )
    if shuffle:
        dataset = dataset.shuffle(shuffle_buffer_size, shuffle_seed)
    dataset = dataset.repeat(num_epochs)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(parse_example_dataset(features, parser_num_threads))
    if label_key is not None:

        def split(parsed: dict[str, Any]) -> Any:
            rest = dict(parsed)
            return rest, rest.pop(label_key)

        dataset = dataset.map(split)
    return dataset.prefetch(1 if prefetch_buffer_size is None else prefetch_buffer_size)
