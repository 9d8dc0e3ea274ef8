"""Functions of elements as graph functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow.data import nest, structure
from sparkflow.graph.functions.function_graph import FunctionGraph
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import control_dependencies, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import DType


@dataclass(frozen=True, slots=True)
class ElementFunction:
    """A graph function.

    Attributes:
        graph: Its body.
        result: The structure of its result.
    """

    graph: FunctionGraph
    result: Any

    @property
    def name(self) -> str:
        """The function's name in the graph."""
        return self.graph.function_name

    @property
    def captured(self) -> list[Tensor]:
        """The tensors of outer graphs that it uses."""
        return self.graph.captured

    @property
    def captured_types(self) -> list[DType]:
        """Their dtypes; variables are passed as references, so that each call reads them."""
        inputs = self.graph.inputs
        return [tensor.dtype for tensor in inputs[len(inputs) - len(self.captured) :]]


def build(
    function: Callable[..., Any],
    arguments: Any,
    what: str,
    further: Any = None,
) -> ElementFunction:
    """Creates a graph function from a Python function of an element.

    Args:
        function: Called once, with tensors. A tuple is passed as several arguments.
        arguments: The structure of an element.
        what: The purpose, such as `Dataset.map()`, for messages and names.
        further: The structure of a state that is passed before the element, as one argument; the
            element is then a single argument, too.

    Raises:
        TypeError: It is not callable, or does not return tensors.
    """
    if not callable(function):
        raise TypeError(f"The function passed to {what} must be callable, got {function!r}.")
    graph = get_default_graph()
    label = what.replace(".", "_").removesuffix("()")
    body = FunctionGraph(graph.new_function_name(label), graph)
    with body.as_default():
        values = _inputs(body, arguments)
        if further is not None:
            result = function(_inputs_before(body, further), values)
        elif type(values) is tuple:
            result = function(*values)
        else:
            result = function(values)
        if isinstance(result, list):
            result = tuple(result)
        if result is None:
            raise TypeError(f"Unsupported return value from function passed to {what}: None.")
        try:
            returned, outputs = structure.of_values(result)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Unsupported return value from function passed to {what}: {result}. {error}"
            ) from error
        # It may return what was made outside.
        body.outputs = [each if each.op.graph is body else body.adopted(each) for each in outputs]
    graph.add_function(body.function_name, body)
    return ElementFunction(body, returned)


def _inputs(body: FunctionGraph, arguments: Any) -> Any:
    flat = [
        body.add_input(component.flat_dtype, component.flat_shape, "args")
        for component in nest.flatten(arguments)
    ]
    return structure.of_flat(arguments, flat)


def _inputs_before(body: FunctionGraph, further: Any) -> Any:
    """Adds arguments in front of the existing ones."""
    after = list(body.inputs)
    body.inputs.clear()
    values = _inputs(body, further)
    for index, tensor in enumerate(after, len(body.inputs)):
        tensor.op._set_attr("index", index)
        body.inputs.append(tensor)
    return values


def node(
    op_type: str,
    inputs: Sequence[Tensor | Sequence[Tensor]],
    attrs: Mapping[str, Any],
    functions: Sequence[ElementFunction] = (),
    name: str | None = None,
) -> Operation:
    """Adds a node that calls functions and inherits their control dependencies."""
    graph = get_default_graph()
    waits_for = [op for function in functions for op in function.graph.waits_for]
    if not waits_for:
        return graph.add_node(op_type, inputs, attrs, name)
    with control_dependencies(waits_for):
        return graph.add_node(op_type, inputs, attrs, name)
