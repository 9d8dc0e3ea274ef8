"""`tf.data.Dataset`: sequences of elements for graphs, and methods that transform them.

A dataset is a node of its graph, executed by `sparkflow_runtime.resources.datasets`. Sources are in
`sources` and `readers`, iterators in `iterator`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow.data import functions, nest, padding, sources, structure
from sparkflow.data.methods import DatasetMethods
from sparkflow.data.options import Options
from sparkflow.data.registered import registered
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.random.random import op_seeds
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import int64, variant
from sparkflow_runtime.ops import registry

AUTOTUNE = -1


class Dataset(DatasetMethods):
    """A sequence of elements, each a nested structure of tensors.

    Created by static methods such as `from_tensor_slices`, and by methods of other datasets.

    Args:
        variant: The tensor that represents it in the graph.
        element: The structure of its elements.
        options: See `with_options`.
    """

    def __init__(self, variant: Tensor, element: Any, options: Options | None = None) -> None:
        self._variant_tensor = variant
        self._structure = element
        self._options = options or Options()

    # ------------------------------------------------------------------ properties

    @property
    def output_types(self) -> Any:
        """The dtype of each component."""
        return structure.types(self._structure)

    @property
    def output_shapes(self) -> Any:
        """The static shape of each component."""
        return structure.static_shapes(self._structure)

    @property
    def output_classes(self) -> Any:
        """The class of each component: `Tensor`, `SparseTensor` or `Dataset`."""
        return structure.classes(self._structure)

    def __repr__(self) -> str:
        sizes, types = (
            str(nest.mapped(form, each)).replace("'", "")
            for form, each in ((str, self.output_shapes), (repr, self.output_types))
        )
        return f"<{type(self).__name__} shapes: {sizes}, types: {types}>"

    def options(self) -> Options:
        """Returns the options that were set."""
        return self._options

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Returns the same dataset with options, which do not change elements.

        Raises:
            ValueError: They conflict with options set before.
        """
        return Dataset(self._variant_tensor, self._structure, self._options.merge(options))

    def __bool__(self) -> bool:
        return True

    # ------------------------------------------------------------------ iteration

    def make_one_shot_iterator(self) -> Any:
        """Returns an iterator that passes through the dataset once and needs no initializer.

        Raises:
            ValueError: The dataset depends on placeholders or variables.
        """
        return registered("one_shot")(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """Returns an iterator that starts whenever its `initializer` runs.

        Args:
            shared_name: The name under which sessions of one task share it.
        """
        return registered("initializable")(self, shared_name)

    def __iter__(self) -> Iterator[Any]:
        begun: Iterator[Any] = registered("eager")(self)
        return begun

    # ------------------------------------------------------------------ sources

    from_tensors = staticmethod(sources.from_tensors)
    from_tensor_slices = staticmethod(sources.from_tensor_slices)
    from_sparse_tensor_slices = staticmethod(sources.from_sparse_tensor_slices)
    from_generator = staticmethod(sources.from_generator)
    from_parquet = staticmethod(sources.from_parquet)
    from_arrow = staticmethod(sources.from_arrow)
    range = staticmethod(sources.range_)
    zip = staticmethod(sources.zip_)
    list_files = staticmethod(sources.list_files)

    # ------------------------------------------------------------------ functions

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: Any = None,
        synchronous: Any = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Returns a dataset of the results of a function applied to each element.

        Args:
            map_func: Maps the components of an element to tensors; called once, to build a graph.
            num_parallel_calls: The most elements computed in parallel, by threads; as many as
                there are cores for `AUTOTUNE`. The order is kept. Threads are used where they are
                faster than the thread that takes the elements, which is measured.
            deterministic: Accepted; the order is always kept.
            synchronous: Accepted.
            use_unbounded_threadpool: Accepted.
            name: Accepted for compatibility, as in all methods.

        Raises:
            TypeError: It is not callable, or does not return tensors.
        """
        function = functions.build(map_func, self._structure, "Dataset.map()")
        inputs: list[Any] = [self._variant_tensor, function.captured]
        op_type = "MapDataset"
        if num_parallel_calls is not None:
            op_type = "ParallelMapDataset"
            inputs.append(convert_to_tensor(num_parallel_calls, dtypes.int32))
        return self._of_function(op_type, inputs, function, function.result)

    def map_with_legacy_function(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: Any = None,
        use_unbounded_threadpool: bool = False,
    ) -> Dataset:
        """The same as `map`."""
        return self.map(map_func, num_parallel_calls)

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """Returns the elements of the datasets that a function returns, one after another.

        Raises:
            TypeError: The function does not return a dataset.
        """
        function, element = self._datasets_of(map_func, "Dataset.flat_map()")
        inputs = [self._variant_tensor, function.captured]
        return self._of_function("FlatMapDataset", inputs, function, element)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = AUTOTUNE,
        block_length: Any = 1,
        num_parallel_calls: Any = None,
        deterministic: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Returns the elements of the datasets that a function returns, interleaved.

        Args:
            map_func: Maps an element to a dataset.
            cycle_length: The number of datasets that are read at once; one per core by default.
            block_length: The number of elements taken from each in turn.
            num_parallel_calls: Reads each dataset in a separate thread. The order is kept.
            deterministic: Accepted.
            name: Accepted.

        Raises:
            TypeError: The function does not return a dataset.
        """
        function, element = self._datasets_of(map_func, "Dataset.interleave()")
        if isinstance(cycle_length, int) and cycle_length == AUTOTUNE:
            cycle_length = os.cpu_count() or 1
        inputs: list[Any] = [
            self._variant_tensor,
            function.captured,
            convert_to_tensor(cycle_length, int64),
            convert_to_tensor(block_length, int64),
        ]
        op_type = "InterleaveDataset"
        if num_parallel_calls is not None:
            op_type = "ParallelInterleaveDatasetV2"
            inputs.append(convert_to_tensor(num_parallel_calls, int64))
        return self._of_function(op_type, inputs, function, element)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Returns the elements for which a function returns True.

        Raises:
            ValueError: It does not return a scalar boolean.
        """
        return self._by_predicate("FilterDataset", predicate, "Dataset.filter()")

    def filter_with_legacy_function(self, predicate: Callable[..., Any]) -> Dataset:
        """The same as `filter`."""
        return self.filter(predicate)

    def reduce(
        self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """Returns the final state after calling a function with state and each element in order.

        Args:
            initial_state: A nested structure of tensors.
            reduce_func: Maps a state and an element to the next state.
            name: Accepted.

        Returns:
            The final state.

        Raises:
            TypeError: The function returns a state with other types.
        """
        state, flat = structure.of_values(initial_state)
        function, state = functions_of_state(reduce_func, state, self._structure)
        attrs = {
            "f": function.name,
            "Tstate": [tensor.dtype.base for tensor in flat],
            "Targuments": function.captured_types,
            **structure.attrs(state),
        }
        inputs: list[Any] = [self._variant_tensor, flat, function.captured]
        op = functions.node("ReduceDataset", inputs, attrs, [function])
        return structure.of_flat(state, op.outputs)

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Dataset:
        """Returns the result of applying a function to the dataset.

        Raises:
            TypeError: The result is not a dataset.
        """
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError(
                f"`transformation_func` must return a Dataset. Got {type(made).__name__}"
            )
        return made

    # ------------------------------------------------------------------ arrangement

    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: Any = None,
        deterministic: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Returns batches of stacked elements.

        Args:
            batch_size: How many make a batch; a scalar tensor or number.
            drop_remainder: Whether to drop a last batch that is too short; the batch size is then
                part of the static shapes.
            deterministic: Accepted.
            num_parallel_calls: Accepted.
            name: Accepted.
        """
        size = convert_to_tensor(batch_size, int64, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtypes.bool_, "drop_remainder")
        element = structure.batched(self._structure, known_batch(size, drop))
        return self._changed("BatchDatasetV2", [size, drop], element)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """Returns batches of stacked elements, padded to the same shape.

        Args:
            batch_size: The number of elements per batch.
            padded_shapes: The shape of each component in a batch, without the first dimension; -1
                or None for dimensions of the largest element. None for the static shapes.
            padding_values: The padding scalar of each component; 0 or "" by default.
            drop_remainder: See `batch`.
            name: Accepted.

        Raises:
            ValueError: A shape is incompatible with its component.
            TypeError: A component is sparse, or a value has another dtype.
        """
        size = convert_to_tensor(batch_size, int64, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtypes.bool_, "drop_remainder")
        sizes, element = padding.padded_shapes(
            self._structure, padded_shapes, known_batch(size, drop)
        )
        values = padding.padding_values(self._structure, padding_values)
        attrs = structure.attrs(element, "Toutput_types")
        attrs["N"] = len(sizes)
        inputs: list[Any] = [self._variant_tensor, size, sizes, values, drop]
        op = get_default_graph().add_node("PaddedBatchDatasetV2", inputs, attrs)
        return Dataset(op.outputs[0], element, self._options)

    def unbatch(self, name: str | None = None) -> Dataset:
        """Returns the rows of the elements.

        Raises:
            ValueError: A component is a scalar.
        """
        rows = structure.unbatched(self._structure)
        kinds = [component.kind for component in nest.flatten(self._structure)]
        if "sparse" not in kinds:
            return self._changed("UnbatchDataset", [], rows)

        def by_row(*element: Any) -> Any:
            is_one = not isinstance(self._structure, tuple)
            parts = nest.flatten(element[0] if is_one else element)
            made = [
                apply_op(
                    "SerializeManySparse",
                    *(each.indices, each.values, each.dense_shape),
                    out_type=variant,
                )
                if kind == "sparse"
                else each
                for each, kind in zip(parts, kinds, strict=True)
            ]
            return nest.pack_as(self._structure, made)

        return self.map(by_row)._changed("UnbatchDataset", [], rows)

    def shuffle(
        self,
        buffer_size: Any,
        seed: Any = None,
        reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Returns the elements in random order.

        Args:
            buffer_size: The number of next elements from which each one is drawn.
            seed: A seed that makes the order reproducible.
            reshuffle_each_iteration: Whether each pass has a different order; True by default.
            name: Accepted.
        """
        inputs = [convert_to_tensor(buffer_size, int64, "buffer_size"), *seeds(seed)]
        attrs = {"reshuffle_each_iteration": reshuffle_each_iteration is not False}
        return self._changed("ShuffleDataset", inputs, self._structure, attrs)

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        """Returns all elements `count` times; endlessly if it is None or -1."""
        return self._counted("RepeatDataset", -1 if count is None else count)

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """Returns the first `count` elements; all if it is -1."""
        return self._counted("TakeDataset", count)

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """Returns all but the first `count` elements; none if it is -1."""
        return self._counted("SkipDataset", count)

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Returns every `num_shards`-th element, starting at `index`.

        Fails at run time if `num_shards` is not positive or `index` is not below it.
        """
        number = convert_to_tensor(num_shards, int64, "num_shards")
        place = convert_to_tensor(index, int64, "index")
        return self._changed("ShardDataset", [number, place], self._structure)

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Dataset:
        """Returns the elements, up to `buffer_size` of which a thread computes in advance.

        Args:
            buffer_size: A number; -1 (`tf.data.experimental.AUTOTUNE`) or None for a few.
            name: Accepted.
        """
        return self._counted("PrefetchDataset", AUTOTUNE if buffer_size is None else buffer_size)

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Returns the elements of this dataset, then those of `dataset`.

        Raises:
            TypeError: Their elements have other types or classes.
        """
        mine, others = self._structure, dataset._structure
        same = structure.types(mine) == structure.types(others)
        if not same:
            raise TypeError(
                f"Two datasets to concatenate have different types {self.output_types} and "
                f"{dataset.output_types}"
            )
        if structure.classes(mine) != structure.classes(others):
            raise TypeError(
                f"Two datasets to concatenate have different classes {self.output_classes} and "
                f"{dataset.output_classes}"
            )
        element = structure.common(mine, others)
        return self._changed("ConcatenateDataset", [dataset._variant_tensor], element)

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Returns the elements, which are computed in the first pass and cached.

        Args:
            filename: The file of the cache, which other programs can use, too; empty for memory.
            name: Accepted.
        """
        path = convert_to_tensor(filename, dtypes.string, "filename")
        return self._changed("CacheDataset", [path], self._structure)

    def enumerate(self, start: Any = 0, name: str | None = None) -> Dataset:
        """Returns pairs of a number, counted from `start`, and an element."""
        return sources.zip_((sources.range_(start, np.iinfo(np.int64).max), self))

    def window(
        self,
        size: Any,
        shift: Any = None,
        stride: Any = 1,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """Returns datasets of consecutive elements.

        Args:
            size: The number of elements per window.
            shift: The distance between the starts of windows; `size` by default.
            stride: The distance between the elements of a window.
            drop_remainder: Whether to drop windows that are too short.
            name: Accepted.

        Returns:
            A dataset whose elements have a dataset for each component.
        """
        inputs = [
            convert_to_tensor(size, int64, "size"),
            convert_to_tensor(size if shift is None else shift, int64, "shift"),
            convert_to_tensor(stride, int64, "stride"),
            convert_to_tensor(drop_remainder, dtypes.bool_, "drop_remainder"),
        ]
        element = nest.mapped(
            lambda c: structure.Component(dtypes.variant, (), "dataset", c), self._structure
        )
        return self._changed("WindowDataset", inputs, element)

    # ------------------------------------------------------------------ creating nodes

    def _changed(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        element: Any,
        attrs: dict[str, Any] | None = None,
    ) -> Dataset:
        all_attrs = {**structure.attrs(element), **(attrs or {})}
        op = get_default_graph().add_node(op_type, [self._variant_tensor, *inputs], all_attrs)
        return Dataset(op.outputs[0], element, self._options)

    def _counted(self, op_type: str, count: Any) -> Dataset:
        name = registry.lookup(op_type).signature.inputs[1].name
        return self._changed(op_type, [convert_to_tensor(count, int64, name)], self._structure)

    def _of_function(
        self,
        op_type: str,
        inputs: Sequence[Any],
        function: functions.ElementFunction,
        element: Any,
        attr: str = "f",
    ) -> Dataset:
        attrs = {
            attr: function.name,
            "Targuments": function.captured_types,
            **structure.attrs(element),
        }
        op = functions.node(op_type, inputs, attrs, [function])
        return Dataset(op.outputs[0], element, self._options)

    def _datasets_of(
        self, function: Callable[..., Any], what: str
    ) -> tuple[functions.ElementFunction, Any]:
        built = functions.build(function, self._structure, what)
        found = built.result
        if not isinstance(found, structure.Component) or found.kind != "dataset":
            raise TypeError(
                f"`map_func` must return a `Dataset` object. Got {structure.classes(found)}"
            )
        return built, found.inner

    def _by_predicate(self, op_type: str, predicate: Callable[..., Any], what: str) -> Dataset:
        built = functions.build(predicate, self._structure, what)
        found = built.result
        is_boolean = (
            isinstance(found, structure.Component)
            and found.kind == "tensor"
            and found.dtype is dtypes.bool_
            and found.shape in ((), None)
        )
        if not is_boolean:
            raise ValueError("`predicate` must return a scalar boolean tensor.")
        inputs = [self._variant_tensor, built.captured]
        return self._of_function(op_type, inputs, built, self._structure, "predicate")


structure.register_dataset_class(Dataset)


def known_batch(size: Tensor, drop: Tensor) -> int | None:
    """Returns the size of all batches if it is statically known."""
    number, dropped = constant_value(size), constant_value(drop)
    return int(number) if dropped is not None and dropped and number is not None else None


def seeds(seed: Any) -> tuple[Tensor, Tensor]:
    """Returns the two seeds of a dataset, derived from its own seed and the graph's."""
    if isinstance(seed, Symbolic):
        first = op_seeds(None)[0]
        return convert_to_tensor(first, int64, "seed"), convert_to_tensor(seed, int64, "seed2")
    first, second = op_seeds(None if seed is None else int(seed))
    return convert_to_tensor(first, int64, "seed"), convert_to_tensor(second, int64, "seed2")


def functions_of_state(
    function: Callable[..., Any],
    state: Any,
    element: Any,
    returns_output: bool = False,
    what: str = "Dataset.reduce()",
) -> tuple[functions.ElementFunction, Any]:
    """Returns a function of a state and an element, and the state's structure common to all calls.

    Args:
        function: Maps a state and an element to the next state; with `returns_output`, to a pair of
            the next state and an output.
        state: The structure of the first state.
        element: The structure of an element.
        returns_output: See `function`.
        what: For messages.

    Raises:
        TypeError: The types or classes of the next state differ.
    """
    while True:
        built = functions.build(function, element, what, state)
        result = built.result
        if returns_output:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(
                    "The scan function must return a pair comprising the new state and the "
                    "output value."
                )
            result = result[0]
        if structure.classes(result) != structure.classes(state):
            raise TypeError(
                "The element classes for the new state must match the initial state. Expected "
                f"{structure.classes(state)}; got {structure.classes(result)}."
            )
        if structure.types(result) != structure.types(state):
            raise TypeError(
                "The element types for the new state must match the initial state. Expected "
                f"{structure.types(state)}; got {structure.types(result)}."
            )
        relaxed = structure.common(state, result)
        if relaxed == state:
            return built, state
        state = relaxed
