"""Datasets of tensors, numbers, generators, and columns of tables."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow.data import functions, nest, structure
from sparkflow.differentiation.python_functions import py_func
from sparkflow.graph.scopes import (
    apply_op,
    control_dependencies,
    convert_to_tensor,
    get_default_graph,
)
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, as_sparse
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType, as_dtype, int64
from sparkflow_runtime.errors import NotFoundError, OutOfRangeError, UnknownError
from sparkflow_runtime.files import system
from sparkflow_runtime.files.arrow import require_arrow
from sparkflow_runtime.resources.datasets.file_datasets import require_no_tables

if TYPE_CHECKING:
    from sparkflow.data.dataset import Dataset


def dataset_of(op_type: str, inputs: Sequence[Any], element: Any, **attrs: Any) -> Dataset:
    """Returns the dataset of a single node without functions."""
    op = get_default_graph().add_node(op_type, inputs, attrs)
    return structure.dataset_class()(op.outputs[0], element)


def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
    """Returns a dataset of one element.

    Args:
        tensors: A nested structure of tensors.
        name: Accepted.
    """
    element, flat = structure.of_values(tensors)
    attrs = structure.attrs(element, "Toutput_types")
    return dataset_of("TensorDataset", [flat], element, **attrs)


def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
    """Returns a dataset of the rows of tensors.

    Args:
        tensors: A nested structure of tensors with equal first dimensions.
        name: Accepted.

    Raises:
        ValueError: A tensor is a scalar, or the first dimensions differ.
    """
    whole, flat = structure.of_values(tensors)
    element = structure.unbatched(whole)
    for index, component in enumerate(nest.flatten(whole)):
        if component.kind == "sparse":
            parts = flat[index].op.inputs  # from the node that serialized it as a whole
            flat[index] = apply_op("SerializeManySparse", *parts, out_type=dtypes.variant)
    attrs = structure.attrs(element, "Toutput_types")
    return dataset_of("TensorSliceDataset", [flat], element, **attrs)


def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
    """Returns a dataset of the rows of a sparse tensor, as sparse tensors.

    Raises:
        TypeError: It is not a sparse tensor.
    """
    if not isinstance(sparse_tensor, SparseTensor):
        raise TypeError(f"`sparse_tensor` must be a `SparseTensor` object. Was {sparse_tensor}.")
    return from_tensor_slices(as_sparse(sparse_tensor))


def range_(*args: Any, output_type: Any = int64, name: str | None = None) -> Dataset:
    """Returns a dataset of the numbers of Python's `range`.

    Args:
        args: `stop`, `start, stop` or `start, stop, step`; numbers or scalar tensors.
        output_type: The dtype of the numbers.
        name: Accepted.

    Raises:
        ValueError: There are no arguments, or more than three.
    """
    if not 1 <= len(args) <= 3:
        raise ValueError(f"Invalid arguments to RangeDataset: {args}")
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) == 3 else 1
    inputs = [
        convert_to_tensor(start, int64, "start"),
        convert_to_tensor(stop, int64, "stop"),
        convert_to_tensor(step, int64, "step"),
    ]
    element = structure.Component(as_dtype(output_type), ())
    return dataset_of("RangeDataset", inputs, element, **structure.attrs(element))


def zip_(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
    """Returns a dataset of tuples of the elements of several datasets, as long as the shortest.

    Args:
        args: Datasets, or one nested structure of them.
        datasets: That structure, by name.
        name: Accepted.

    Raises:
        TypeError: It is not a structure of datasets.
    """
    if args:
        datasets = args[0] if len(args) == 1 else args
    flat = nest.flatten(datasets)
    for each in flat:
        if isinstance(each, list):
            raise TypeError(
                "The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects. "
                "Nested structures do not support Python lists; please use a tuple instead."
            )
        if not isinstance(each, structure.dataset_class()):
            raise TypeError(
                "The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects. "
                f"Got {type(each).__name__}."
            )
    element = nest.pack_as(datasets, [each._structure for each in flat])
    inputs = [[each._variant_tensor for each in flat]]
    return dataset_of("ZipDataset", inputs, element, N=len(flat), **structure.attrs(element))


def list_files(
    file_pattern: Any,
    shuffle: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Returns a dataset of the paths that match patterns.

    Args:
        file_pattern: One or several patterns, in the syntax of `tf.gfile.Glob`.
        shuffle: Whether to return them in random order; True by default.
        seed: A seed that makes the order reproducible.
        name: Accepted.

    Raises:
        InvalidArgumentError: At run time: nothing matches.
    """
    pattern = convert_to_tensor(file_pattern, dtypes.string, "file_pattern")
    found: Tensor = apply_op("MatchingFiles", pattern)
    count = apply_op("Size", found)
    message = ["No files matched pattern:", pattern]
    check = get_default_graph().add_node(
        "Assert",
        [
            apply_op("Greater", count, 0),
            [convert_to_tensor(each, dtypes.string) for each in message],
        ],
        {"summarize": 3},
    )
    with control_dependencies([check]):
        found = apply_op("Identity", found)
    dataset = from_tensor_slices(found)
    if shuffle is None or shuffle:
        size = apply_op("Maximum", apply_op("Cast", count, DstT=int64), convert_to_tensor(1, int64))
        dataset = dataset.shuffle(size, seed=seed)
    return dataset


# ------------------------------------------------------------------ generators


class _Generators:
    """The active generators of a dataset. Thread-safe.

    `_lock` guards the other fields.

    Args:
        begin: Called with arrays; returns an iterable.
        convert: Converts yielded values to arrays.
    """

    def __init__(self, begin: Callable[..., Any], convert: Callable[[Any], list[Any]]) -> None:
        self._begin, self._convert = begin, convert
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._open: dict[int, Iterator[Any]] = {}

    def start(self, *args: Any) -> Any:
        """Starts a generator and returns its number."""
        begun = iter(self._begin(*args))
        with self._lock:
            number = next(self._numbers)
            self._open[number] = begun
        return np.int64(number)

    def following(self, number: Any) -> list[Any]:
        """Returns the next element of a generator; raises StopIteration at its end.

        Raises:
            UnknownError: The generator raised OutOfRangeError, which would otherwise mean its end.
        """
        with self._lock:
            generator = self._open[int(number)]
        try:
            value = next(generator)
        except OutOfRangeError as error:
            raise UnknownError(message=f"OutOfRangeError in the generator: {error}") from error
        return self._convert(value)

    def finish(self, number: Any) -> Any:
        """Releases a generator."""
        with self._lock:
            generator = self._open.pop(int(number), None)
        close = getattr(generator, "close", None)
        if close is not None:
            close()
        return np.int64(0)


def from_generator(
    generator: Callable[..., Any],
    output_types: Any = None,
    output_shapes: Any = None,
    args: Any = None,
    output_signature: Any = None,
    name: str | None = None,
) -> Dataset:
    """Returns a dataset of what a Python generator yields, in the process that built the graph.

    Args:
        generator: Called for each pass; returns an iterable.
        output_types: The dtypes of the yielded values, in their structure.
        output_shapes: Their shapes; None for unknown ones.
        args: Tensors whose values are passed to `generator`.
        output_signature: The yielded values as nested `TensorSpec`, instead of types and shapes.
        name: Accepted.

    Raises:
        TypeError: `generator` is not callable, the shapes do not match the types, or neither types
            nor a signature are given.
    """
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    if output_signature is not None:
        if output_types is not None or output_shapes is not None:
            raise TypeError(
                "The `output_types` and `output_shapes` arguments can not be used together with "
                "`output_signature`."
            )
        element = nest.mapped(structure.of_spec, output_signature)
    elif output_types is None:
        raise TypeError("Either `output_types` or `output_signature` must be specified.")
    else:
        element = structure.from_legacy(output_types, output_shapes)
    flat = nest.flatten(element)

    def converted(value: Any) -> list[Any]:
        try:
            parts = nest.flatten_up_to(element, value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "`generator` yielded an element that did not match the expected structure. The "
                f"expected structure was {structure.types(element)}, but the yielded element was "
                f"{value}."
            ) from error
        pairs = zip(parts, flat, strict=True)
        return [_as_array(part, component) for part, component in pairs]

    generators = _Generators(generator, converted)
    given = tuple(convert_to_tensor(each, name="args") for each in args or ())
    arguments, flat_args = structure.of_values(given)
    number = structure.Component(int64, ())
    begin = functions.build(
        lambda *tensors: _scalar(py_func(generators.start, list(tensors), int64)),
        arguments,
        "Dataset.from_generator()",
    )

    def following(index: Tensor) -> Any:
        values = py_func(generators.following, [index], [each.flat_dtype for each in flat])
        for tensor, component in zip(values, flat, strict=True):
            tensor.set_shape(component.shape)
        return tuple(values)

    further = functions.build(following, number, "Dataset.from_generator()")
    finish = functions.build(
        lambda index: _scalar(py_func(generators.finish, [index], int64)),
        number,
        "Dataset.from_generator()",
    )
    attrs = {
        "init_func": begin.name,
        "next_func": further.name,
        "finalize_func": finish.name,
        "Tinit_func_args": [each.dtype for each in flat_args],
        "Tnext_func_args": [],
        "Tfinalize_func_args": [],
        **structure.attrs(element),
    }
    return dataset_of("GeneratorDataset", [flat_args, [], []], element, **attrs)


def _scalar(tensor: Tensor) -> Tensor:
    tensor.set_shape(())
    return tensor


_KINDS_FOR = {"bool": "b", "integer": "biuO", "other": "biufcOV"}
"""The kinds of numpy's dtypes whose values are taken for each kind of ours."""


def _kind(dtype: DType) -> str:
    if dtype is dtypes.bool_:
        return "bool"
    return "integer" if dtype.is_integer else "other"


def _unfit(value: Any, dtype: DType) -> TypeError:
    return TypeError(
        "`generator` yielded an element that could not be converted to the expected type. The "
        f"expected type was {dtype.name}, but the yielded element was {value!r}; yield values of "
        "that type, or change `output_types`."
    )


def _as_array(value: Any, component: structure.Component) -> Any:
    dtype = component.dtype
    try:
        if dtype is dtypes.string:
            array = np.asarray(value, object)
            fits = all(isinstance(each, str | bytes) for each in array.flat)
        else:
            array = np.asarray(value)
            # Numpy's values say themselves what they are, and are cast as in TensorFlow.
            fits = (
                isinstance(value, np.ndarray | np.generic)
                or not array.size
                or array.dtype.kind in _KINDS_FOR[_kind(dtype)]
            )
            array = np.asarray(value, dtype.as_numpy_dtype) if fits else array
    except (TypeError, ValueError, OverflowError) as error:
        raise _unfit(value, dtype) from error
    if not fits:
        raise _unfit(value, dtype)
    wanted = component.shape
    if wanted is not None and (
        len(wanted) != array.ndim
        or any(a is not None and a != b for a, b in zip(wanted, array.shape, strict=True))
    ):
        raise ValueError(
            f"`generator` yielded an element of shape {array.shape} where an element of shape "
            f"{structure.static_shapes(component)} was expected."
        )
    return array


# ------------------------------------------------------------------ columns of tables


def from_parquet(paths: Any, columns: Sequence[str] | None = None) -> Dataset:
    """Returns a dataset of the rows of Parquet files, as dictionaries by column.

    The schema of the first file is read now; the rows are read where the graph runs, one row group
    at a time. Subsequent `batch` and `shuffle` work on whole columns.

    Args:
        paths: One or several paths or URIs.
        columns: The columns; all by default. The lists of a column must have the same length.

    Raises:
        NotFoundError: A file or column does not exist.
        InvalidArgumentError: A file belongs to a table in another format, such as Delta.
        TypeError: A column has a type that tensors do not support.
    """
    require_arrow()
    from pyarrow import parquet

    names = _paths(paths)
    require_no_tables(names)
    with system.open_file(names[0]) as stream:
        schema = parquet.read_schema(stream)
    return _of_columns("SparkflowParquetDataset", names, schema, columns)


def from_arrow(source: Any, columns: Sequence[str] | None = None) -> Dataset:
    """Returns a dataset of the rows of an Arrow table, or of files in Arrow's IPC format.

    Args:
        source: A `pyarrow.Table` or `RecordBatch`, which becomes part of the graph; or one or
            several paths or URIs, which are read where the graph runs.
        columns: The columns; all by default.

    Raises:
        NotFoundError: A file or column does not exist.
        TypeError: A column has a type that tensors do not support.
    """
    require_arrow()
    import pyarrow as pa

    from sparkflow_runtime.resources.datasets.arrow_columns import column_array

    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        wanted = _chosen(source.schema, columns)
        return from_tensor_slices(
            {
                name: column_array(source.column(name), name, _column_type(source.schema, name)[0])
                for name in wanted
            }
        )
    names = _paths(source)
    with system.open_file(names[0]) as stream:
        schema = _ipc_schema(stream)
    return _of_columns("SparkflowArrowDataset", names, schema, columns)


def _ipc_schema(stream: Any) -> Any:
    require_arrow()
    from pyarrow import ipc

    start = stream.read(6)
    stream.seek(0)
    opened = ipc.open_file(stream) if start == b"ARROW1" else ipc.open_stream(stream)
    return opened.schema


def _paths(paths: Any) -> list[str]:
    if isinstance(paths, str | bytes | os.PathLike):
        return [system.as_text(paths)]
    found = [system.as_text(path) for path in paths]
    if not found:
        raise ValueError("There must be at least one path")
    return found


def _of_columns(
    op_type: str, names: Sequence[str], schema: Any, columns: Sequence[str] | None
) -> Dataset:
    wanted = _chosen(schema, columns)
    element = {name: structure.Component(*_column_type(schema, name)) for name in wanted}
    filenames = convert_to_tensor(list(names), dtypes.string, "filenames")
    return dataset_of(
        op_type, [filenames], element, columns=sorted(wanted), **structure.attrs(element)
    )


def _chosen(schema: Any, columns: Sequence[str] | None) -> list[str]:
    wanted = list(schema.names if columns is None else columns)
    missing = [name for name in wanted if name not in schema.names]
    if missing or not wanted:
        raise NotFoundError(
            message=f"There are no columns {missing}; there are {', '.join(schema.names) or 'none'}"
        )
    return wanted


def _column_type(schema: Any, name: str) -> tuple[DType, tuple[int | None, ...]]:
    """Returns the dtype of a column and the static shape of a row."""
    require_arrow()
    import pyarrow as pa

    kind = schema.field(name).type
    shape: tuple[int | None, ...] = ()
    if pa.types.is_fixed_size_list(kind):
        shape, kind = (kind.list_size,), kind.value_type
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        shape, kind = (None,), kind.value_type
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    if any(test(kind) for test in tests):
        return dtypes.string, shape
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return as_dtype(kind.to_pandas_dtype()), shape
    raise TypeError(
        f"Column {name!r} is {schema.field(name).type}, which tensors cannot hold; cast it, or "
        "choose other columns"
    )
