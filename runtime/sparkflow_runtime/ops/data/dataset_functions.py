"""Datasets that call functions of the graph, and reductions of whole datasets.

A function receives the components of an element, then the tensors it captured, which are further
inputs of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sparkflow_runtime.errors import InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.ops.data.dataset import OUTPUTS, DatasetOp, integer, kept
from sparkflow_runtime.ops.data.iterator import element_check
from sparkflow_runtime.ops.inference import attribute
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, NodeView
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, list_attr, string_attr
from sparkflow_runtime.resources.datasets import (
    dataset_sources,
    dataset_threads,
    function_datasets as dataset_functions,
)
from sparkflow_runtime.resources.datasets.dataset import Call, Dataset, Element
from sparkflow_runtime.resources.datasets.dataset_transforms import batched
from sparkflow_runtime.resources.faster_way import FasterWay

_FUNCTION = Attr("func")
_F = {"f": _FUNCTION, "Targuments": list_attr("type")}
_METADATA = {"metadata": string_attr("")}
_MAP = {
    **_F,
    **OUTPUTS,
    "use_inter_op_parallelism": bool_attr(True),
    "preserve_cardinality": bool_attr(False),
    "force_synchronous": bool_attr(False),
    **_METADATA,
}


def call_with(context: KernelContext, name: str, captured: Sequence[Any]) -> Call:
    """The function of that name, with its captured tensors."""
    function = context.function(name)
    further = kept(captured)
    if not further:
        return lambda step, element: function(step, *element)
    return lambda step, element: function(step, *element, *further)


class _OfFunction(DatasetOp):
    """A dataset of one function `f`, whose captured tensors follow the first input."""

    inputs = "input_dataset: variant, other_arguments: Targuments"
    attrs = {**_F, **OUTPUTS, **_METADATA}
    function = "f"

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel makes the dataset."""
        name, count = node.attrs[self.function], len(node.attrs["Targuments"])
        made = self.made

        def run(source: Dataset, *rest: Any) -> Dataset:
            return made(source, call_with(context, name, rest[:count]), rest[count:], node)

        return run

    def made(self, source: Dataset, call: Call, rest: Sequence[Array], node: NodeView) -> Dataset:
        """The dataset, from the inputs that follow those captured."""
        raise NotImplementedError(self.op_type)


@register
class MapDataset(_OfFunction):
    """The results of a function applied to each element."""

    attrs = _MAP

    def made(self, source: Dataset, call: Call, rest: Sequence[Array], node: NodeView) -> Dataset:
        """Mapped."""
        return dataset_functions.mapped(source, call)


class _InThreads(_OfFunction):
    """A dataset that may call its function in threads."""

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel makes the dataset; all that one node makes share their experience."""
        name, count = node.attrs[self.function], len(node.attrs["Targuments"])
        made, way = self.made_in_threads, FasterWay()

        def run(source: Dataset, *rest: Any) -> Dataset:
            return made(source, call_with(context, name, rest[:count]), rest[count:], way)

        return run

    def made_in_threads(
        self, source: Dataset, call: Call, rest: Sequence[Array], way: FasterWay
    ) -> Dataset:
        """The dataset, from the inputs that follow those captured."""
        raise NotImplementedError(self.op_type)


def in_parallel(source: Dataset, call: Call, parallel: int, way: FasterWay) -> Dataset:
    """Maps with a number of parallel calls; -1 chooses it automatically.

    Raises:
        InvalidArgumentError: `parallel` is 0 or below -1.
    """
    if parallel < 1 and parallel != dataset_threads.AUTOTUNE:
        raise InvalidArgumentError(message="num_parallel_calls must be greater than zero.")
    if parallel == 1:
        return dataset_functions.mapped(source, call)
    return dataset_threads.mapped_in_parallel(source, call, parallel, way)


@register
class ParallelMapDataset(_InThreads):
    """The same with several parallel calls."""

    inputs = f"{MapDataset.inputs}, num_parallel_calls: int32"
    attrs = {
        **_F,
        **OUTPUTS,
        "use_inter_op_parallelism": bool_attr(True),
        "sloppy": bool_attr(False),
        "preserve_cardinality": bool_attr(False),
        **_METADATA,
    }

    def made_in_threads(
        self, source: Dataset, call: Call, rest: Sequence[Array], way: FasterWay
    ) -> Dataset:
        """Mapped."""
        return in_parallel(source, call, integer(rest[0], "num_parallel_calls"), way)


@register
class ParallelMapDatasetV2(ParallelMapDataset):
    """The same."""

    inputs = f"{MapDataset.inputs}, num_parallel_calls: int64"
    attrs = {
        **_F,
        **OUTPUTS,
        "use_inter_op_parallelism": bool_attr(True),
        "deterministic": string_attr("default"),
        "preserve_cardinality": bool_attr(False),
        "use_unbounded_threadpool": bool_attr(False),
        **_METADATA,
    }


@register
class MapAndBatchDataset(_InThreads):
    """Batches of the results of a function applied to each element."""

    inputs = (
        f"{MapDataset.inputs}, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool"
    )
    attrs = {**_F, **OUTPUTS, "preserve_cardinality": bool_attr(False), **_METADATA}

    def made_in_threads(
        self, source: Dataset, call: Call, rest: Sequence[Array], way: FasterWay
    ) -> Dataset:
        """Mapped, then stacked."""
        size, parallel, drop = rest
        mapped = in_parallel(source, call, integer(parallel, "num_parallel_calls"), way)
        return batched(mapped, integer(size, "batch_size"), bool(drop))


@register
class FilterDataset(_OfFunction):
    """The elements for which a function is true."""

    attrs = {"predicate": _FUNCTION, "Targuments": list_attr("type"), **OUTPUTS, **_METADATA}
    function = "predicate"

    def made(self, source: Dataset, call: Call, rest: Sequence[Array], node: NodeView) -> Dataset:
        """Filtered."""
        return dataset_functions.filtered(source, call)


@register
class TakeWhileDataset(FilterDataset):
    """The elements before the first for which a function is false."""

    def made(self, source: Dataset, call: Call, rest: Sequence[Array], node: NodeView) -> Dataset:
        """The first."""
        return dataset_functions.taken_while(source, call)


@register
class FlatMapDataset(_OfFunction):
    """The elements of the datasets that a function returns, one dataset after another."""

    def made(self, source: Dataset, call: Call, rest: Sequence[Array], node: NodeView) -> Dataset:
        """One after the other."""
        return dataset_functions.interleaved(source, call)


@register
class InterleaveDataset(_OfFunction):
    """The elements of the datasets that a function returns, interleaved."""

    inputs = f"{MapDataset.inputs}, cycle_length: int64, block_length: int64"

    def made(self, source: Dataset, call: Call, rest: Sequence[Array], node: NodeView) -> Dataset:
        """In turn."""
        cycle, block = integer(rest[0], "cycle_length"), integer(rest[1], "block_length")
        return dataset_functions.interleaved(source, call, cycle, block)


class _ParallelInterleave(_InThreads):
    """The same; each open dataset is read by its own thread."""

    def made_in_threads(
        self, source: Dataset, call: Call, rest: Sequence[Array], way: FasterWay
    ) -> Dataset:
        """In turn, in the same order."""
        cycle, block = integer(rest[0], "cycle_length"), integer(rest[1], "block_length")
        size = max(2 * block, 2)
        if cycle == dataset_threads.AUTOTUNE:
            cycle = dataset_threads.MOST_THREADS
        if cycle > dataset_threads.MOST_THREADS:
            return dataset_functions.interleaved(source, call, cycle, block)
        begin = partial(dataset_threads.begin_in_thread, size, way)
        return dataset_functions.interleaved(source, call, cycle, block, begin)


_IN_TURN = f"{MapDataset.inputs}, cycle_length: int64, block_length: int64"


@register
class ParallelInterleaveDataset(_ParallelInterleave):
    """See `_ParallelInterleave`."""

    inputs = (
        f"{_IN_TURN}, sloppy: bool, buffer_output_elements: int64, prefetch_input_elements: int64"
    )


@register
class ParallelInterleaveDatasetV2(_ParallelInterleave):
    """See `_ParallelInterleave`."""

    inputs = f"{_IN_TURN}, num_parallel_calls: int64"
    attrs = {**_F, **OUTPUTS, "sloppy": bool_attr(False), **_METADATA}


@register
class ParallelInterleaveDatasetV3(_ParallelInterleave):
    """See `_ParallelInterleave`."""

    inputs = f"{_IN_TURN}, num_parallel_calls: int64"
    attrs = {**_F, **OUTPUTS, "deterministic": string_attr("default"), **_METADATA}


@register
class ParallelInterleaveDatasetV4(_ParallelInterleave):
    """See `_ParallelInterleave`."""

    inputs = (
        f"{_IN_TURN}, buffer_output_elements: int64, prefetch_input_elements: int64, "
        "num_parallel_calls: int64"
    )
    attrs = {**_F, **OUTPUTS, "deterministic": string_attr("default"), **_METADATA}


@register
class ScanDataset(DatasetOp):
    """The results of a function of each element and a state."""

    inputs = "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments"
    attrs = {
        "f": _FUNCTION,
        "Tstate": list_attr("type", minimum=1),
        "Targuments": list_attr("type"),
        **OUTPUTS,
        "preserve_cardinality": bool_attr(False),
        "use_default_device": bool_attr(True),
        **_METADATA,
    }

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel makes the dataset."""
        name, count = node.attrs["f"], len(node.attrs["Tstate"])

        def run(source: Dataset, *rest: Any) -> Dataset:
            call = call_with(context, name, rest[count:])
            return dataset_functions.scanned(source, call, kept(rest[:count]))

        return run


@register
class GroupByWindowDataset(DatasetOp):
    """The datasets that a function returns for groups of elements."""

    inputs = (
        "input_dataset: variant, key_func_other_arguments: Tkey_func_other_arguments, "
        "reduce_func_other_arguments: Treduce_func_other_arguments, "
        "window_size_func_other_arguments: Twindow_size_func_other_arguments"
    )
    attrs = {
        "key_func": _FUNCTION,
        "reduce_func": _FUNCTION,
        "window_size_func": _FUNCTION,
        "Tkey_func_other_arguments": list_attr("type"),
        "Treduce_func_other_arguments": list_attr("type"),
        "Twindow_size_func_other_arguments": list_attr("type"),
        **OUTPUTS,
        **_METADATA,
    }

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel makes the dataset."""
        names = ("key_func", "reduce_func", "window_size_func")
        counts = [len(node.attrs[f"T{name}_other_arguments"]) for name in names]

        def run(source: Dataset, *rest: Any) -> Dataset:
            calls, start = [], 0
            for name, count in zip(names, counts, strict=True):
                calls.append(call_with(context, node.attrs[name], rest[start : start + count]))
                start += count
            key, reduce, size = calls
            return dataset_functions.grouped(source, key, size, reduce)

        return run


@register
class GeneratorDataset(DatasetOp):
    """A dataset generated by functions; see `dataset_sources.of_functions`."""

    inputs = (
        "init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, "
        "finalize_func_other_args: Tfinalize_func_args"
    )
    attrs = {
        "init_func": _FUNCTION,
        "next_func": _FUNCTION,
        "finalize_func": _FUNCTION,
        "Tinit_func_args": list_attr("type"),
        "Tnext_func_args": list_attr("type"),
        "Tfinalize_func_args": list_attr("type"),
        **OUTPUTS,
        **_METADATA,
    }

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel makes the dataset."""
        names = ("init_func", "next_func", "finalize_func")
        counts = [len(node.attrs[f"T{name.removesuffix('_func')}_func_args"]) for name in names]

        def run(*rest: Any) -> Dataset:
            calls, start = [], 0
            for name, count in zip(names, counts, strict=True):
                calls.append(call_with(context, node.attrs[name], rest[start : start + count]))
                start += count
            begin, following, finish = calls

            def next_or_end(step: Any, state: Element) -> Element | None:
                try:
                    return following(step, state)
                except OutOfRangeError:
                    return None

            def finished(state: Element) -> None:
                finish(dataset_threads.BackgroundStep(), state)

            return dataset_sources.of_functions(begin, next_or_end, finished)

        return run


@register
class ReduceDataset(DatasetOp):
    """The final state after a function was called with it and each element."""

    inputs = "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments"
    outputs = "components: output_types"
    attrs = {
        "f": _FUNCTION,
        "Tstate": list_attr("type", minimum=1),
        "Targuments": list_attr("type"),
        **OUTPUTS,
        "use_inter_op_parallelism": bool_attr(True),
        **_METADATA,
    }
    takes_step = True
    may_block = True
    infer = attribute("output_shapes")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""
        name, count = node.attrs["f"], len(node.attrs["Tstate"])

        def run(step: StepContext | None, source: Dataset, *rest: Any) -> Element:
            call = call_with(context, name, rest[count:])
            running = dataset_threads.BackgroundStep() if step is None else step
            return dataset_functions.reduced(source, call, rest[:count], running)

        return run


@register
class DatasetToSingleElement(DatasetOp):
    """The element of a dataset that has exactly one."""

    inputs = "dataset: variant"
    outputs = "components: output_types"
    attrs = {**OUTPUTS, **_METADATA}
    takes_step = True
    may_block = True
    infer = attribute("output_shapes")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""
        check = element_check(node)

        def run(step: StepContext, source: Dataset) -> Element:
            iterator = source.iterate()
            try:
                element = iterator.next(step)
                if element is None:
                    raise InvalidArgumentError(message="Dataset was empty.")
                if iterator.next(step) is not None:
                    raise InvalidArgumentError(message="Dataset had more than one element.")
            finally:
                iterator.close()
            check(element)
            return element

        return run
