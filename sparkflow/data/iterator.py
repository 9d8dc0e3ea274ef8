"""`tf.data.Iterator` and functions that create iterators, in graphs and in eager execution."""

from __future__ import annotations

from typing import Any

from sparkflow.data import nest, structure
from sparkflow.data.dataset import Dataset
from sparkflow.data.registered import of_datasets, registered
from sparkflow.graph.functions.function_graph import FunctionGraph
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import OutOfRangeError
from sparkflow_runtime.ops import registry


class Iterator:
    """A graph's position in a dataset; created by methods of datasets and the static methods here.

    Args:
        resource: The tensor that represents it.
        initializer: The operation that starts it; None if it is started in another way.
        element: The structure of the elements.
    """

    def __init__(self, resource: Tensor, initializer: Operation | None, element: Any) -> None:
        self._iterator_resource = resource
        self._initializer = initializer
        self._structure = element

    @staticmethod
    def from_structure(
        output_types: Any,
        output_shapes: Any = None,
        shared_name: str | None = None,
        output_classes: Any = None,
    ) -> Iterator:
        """Returns an iterator without a dataset, which `make_initializer` starts with one.

        Args:
            output_types: The dtypes of elements, in their structure.
            output_shapes: Their shapes; None for unknown ones.
            shared_name: The name under which sessions of one task share it.
            output_classes: `Tensor` or `SparseTensor` for each; None for `Tensor`.
        """
        element = structure.from_legacy(output_types, output_shapes, output_classes)
        return Iterator(_resource(element, shared_name), None, element)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """Returns the iterator with a `string_handle`, which is looked up at run time.

        Args:
            string_handle: A scalar string tensor.
            output_types: See `from_structure`.
            output_shapes: See `from_structure`.
            output_classes: See `from_structure`.
        """
        element = structure.from_legacy(output_types, output_shapes, output_classes)
        handle = convert_to_tensor(string_handle, dtypes.string, "string_handle")
        op = get_default_graph().add_node(
            "IteratorFromStringHandleV2", [handle], structure.attrs(element)
        )
        return Iterator(op.outputs[0], None, element)

    @property
    def initializer(self) -> Operation:
        """The operation that moves to the first element.

        Raises:
            ValueError: The iterator has none: see `make_initializer`.
        """
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """Returns the operation that moves to the first element of a dataset.

        Raises:
            TypeError: Its elements have other types or shapes.
        """
        structure.require_compatible(self._structure, dataset._structure)
        graph = self._iterator_resource.graph
        if dataset._variant_tensor.graph is not graph:
            raise ValueError(
                "The iterator and the dataset are of different graphs: make both in one graph."
            )
        with graph.colocate_with(self._iterator_resource.op):
            inputs = [dataset._variant_tensor, self._iterator_resource]
            return graph.add_node("MakeIterator", inputs, {}, name or "make_initializer")

    def get_next(self, name: str | None = None) -> Any:
        """Returns the next element in each step that needs it; OutOfRangeError after the last.

        Call this once and use its result in the program's loop.
        """
        graph = self._iterator_resource.graph
        attrs = structure.attrs(self._structure)
        op = graph.add_node("IteratorGetNext", [self._iterator_resource], attrs, name)
        return structure.of_flat(self._structure, op.outputs)

    def string_handle(self, name: str | None = None) -> Tensor:
        """Returns a scalar string handle, for `from_string_handle` in the same task."""
        graph = self._iterator_resource.graph
        found: Tensor = graph.apply(
            "IteratorToStringHandle", [self._iterator_resource], {}, name or "string_handle"
        )
        return found

    @property
    def element_spec(self) -> Any:
        """The type of the elements: a nested structure of `TensorSpec` and related specs."""
        return nest.mapped(structure.spec_of, self._structure)

    def get_next_as_optional(self, name: str | None = None) -> Any:
        """Returns the next element or its absence; see `tf.data.experimental.Optional`."""
        return registered("get_next_as_optional")(self)

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
        """The class of each component."""
        return structure.classes(self._structure)


def _resource(element: Any, shared_name: str | None) -> Tensor:
    attrs = {"shared_name": shared_name or "", "container": "", **structure.attrs(element)}
    return get_default_graph().add_node("IteratorV2", [], attrs).outputs[0]


@of_datasets
def initializable(dataset: Dataset, shared_name: str | None) -> Iterator:
    """See `Dataset.make_initializable_iterator`.

    Raises:
        RuntimeError: In eager execution.
        ValueError: The dataset belongs to another graph.
    """
    graph = get_default_graph()
    if graph.is_eager:
        raise RuntimeError(
            "dataset.make_initializable_iterator is not supported when eager execution is enabled. "
            "Use `for elem in dataset` instead."
        )
    _require_here(dataset)
    iterator = Iterator(_resource(dataset._structure, shared_name), None, dataset._structure)
    iterator._initializer = iterator.make_initializer(dataset)
    return iterator


def _require_here(dataset: Dataset) -> None:
    graph, made = get_default_graph(), dataset._variant_tensor.graph
    if made is not graph and not graph.sees(made):
        raise ValueError(
            "A dataset can be gone through in the graph it was made in only: make it and its "
            "iterator in the same graph."
        )


@of_datasets
def one_shot(dataset: Dataset) -> Any:
    """See `Dataset.make_one_shot_iterator`."""
    graph = get_default_graph()
    if graph.is_eager:
        return EagerIterator(dataset)
    _require_here(dataset)
    body = FunctionGraph(graph.new_function_name("_make_dataset"), graph)
    copies: dict[Operation, Operation] = {}
    with body.as_default():
        variant = dataset._variant_tensor
        copied = _copied(body, variant.op, copies)
        body.outputs = [copied.outputs[variant.value_index]]
    graph.add_function(body.function_name, body)
    attrs = {
        "dataset_factory": body.function_name,
        **structure.attrs(dataset._structure),
        "container": "",
        "shared_name": "",
    }
    op = graph.add_node("OneShotIterator", [], attrs)
    return Iterator(op.outputs[0], None, dataset._structure)


def _copied(body: FunctionGraph, last: Operation, copies: dict[Operation, Operation]) -> Operation:
    """Copies an operation and its dependencies into a function.

    Raises:
        ValueError: It depends on values that a function without arguments cannot compute.
    """
    stack = [last]
    while stack:
        op = stack[-1]
        checks = [each for each in op.control_inputs if _is_check(each)]
        needed = [*(each.op for each in op.inputs), *checks]
        missing = [each for each in needed if each not in copies]
        if op not in copies and missing:
            stack += missing
            continue
        stack.pop()
        if op in copies:
            continue
        _require_value(op)
        inputs = [copies[each.op].outputs[each.value_index] for each in op.inputs]
        attrs = {key: value for key, value in op._attrs.items() if key != "_class"}
        name = op.name.rpartition("/")[2]
        with body.control_dependencies([copies[each] for each in checks]):
            copies[op] = body._create_here(op.type, _grouped(op, inputs), attrs, name)
    return copies[last]


def _is_check(op: Operation) -> bool:
    return not op.outputs and registry.lookup(op.type).copyable


def _require_value(op: Operation) -> None:
    known = registry.lookup(op.type)
    if known.is_placeholder and not op.inputs:
        raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
    if op.type == "_Arg" or (known.stateful and not known.copyable):
        raise ValueError(
            f"Failed to create a one-shot iterator for a dataset. `Dataset.make_initializable_"
            "iterator()` is more flexible. The original error: Cannot capture a stateful node "
            f"(name:{op.name}, type:{op.type}) by value."
        )


def _grouped(op: Operation, flat: list[Tensor]) -> list[Any]:
    """Returns the inputs by argument of the op, as lists for list arguments."""
    signature = registry.lookup(op.type).signature
    grouped: list[Any] = []
    place = 0
    for arg in signature.inputs:
        if not arg.is_list:
            grouped.append(flat[place])
            place += 1
            continue
        if arg.list_attr is not None:
            count = len(op._attrs[arg.list_attr])
        else:
            assert arg.number_attr is not None
            count = op._attrs[arg.number_attr]
        grouped.append(flat[place : place + count])
        place += count
    return grouped


class EagerIterator:
    """Iterates over a dataset in eager execution.

    Args:
        dataset: The dataset.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset  # keeps its generators alive
        self._structure = dataset._structure
        self._resource = _resource(dataset._structure, None)
        get_default_graph().add_node("MakeIterator", [dataset._variant_tensor, self._resource])

    def __iter__(self) -> EagerIterator:
        return self

    def __next__(self) -> Any:
        try:
            return self.get_next()
        except OutOfRangeError:
            raise StopIteration from None

    def next(self) -> Any:
        """Returns the next element; raises StopIteration after the last."""
        return self.__next__()

    def get_next(self, name: str | None = None) -> Any:
        """Returns the next element; raises OutOfRangeError after the last."""
        attrs = structure.attrs(self._structure)
        graph = self._resource.graph
        op = graph.add_node("IteratorGetNext", [self._resource], attrs, name)
        return structure.of_flat(self._structure, op.outputs)

    @property
    def element_spec(self) -> Any:
        """The type of the elements: a nested structure of `TensorSpec` and related specs."""
        return nest.mapped(structure.spec_of, self._structure)

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
        """The class of each component."""
        return structure.classes(self._structure)


@of_datasets
def eager(dataset: Dataset) -> EagerIterator:
    """Returns the iterator for `for element in dataset`.

    Raises:
        RuntimeError: Eager execution is not enabled.
    """
    if not get_default_graph().is_eager:
        raise RuntimeError("dataset.__iter__() is only supported when eager execution is enabled.")
    return EagerIterator(dataset)


def make_one_shot_iterator(dataset: Dataset) -> Any:
    """The same as `dataset.make_one_shot_iterator()`."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Any:
    """The same as `dataset.make_initializable_iterator(shared_name)`."""
    return dataset.make_initializable_iterator(shared_name)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Returns the dtype of each component of a dataset or iterator."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Returns the static shape of each component of a dataset or iterator."""
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """Returns the class of each component of a dataset or iterator."""
    return dataset_or_iterator.output_classes
