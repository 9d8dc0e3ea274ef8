"""The default graph and the functions that act on it: scopes, devices, collections."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sparkflow._api import export
from sparkflow.graph.composite import Composite
from sparkflow.graph.conversion import convert, first_symbolic
from sparkflow.graph.default_stack import default_graphs, sessions
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import DType, as_dtype


@export("get_default_graph")
def get_default_graph() -> Graph:
    """The innermost graph made default in this thread; one made on first use when there is none."""
    graph: Graph | None = default_graphs.top() or default_graphs.fallback
    if graph is not None:
        return graph
    if default_graphs.implicit is None:
        default_graphs.implicit = Graph()
    implicit: Graph = default_graphs.implicit
    return implicit


@export("reset_default_graph")
def reset_default_graph() -> None:
    """Forgets the default graph of this thread; the next use makes a new one.

    Raises:
        AssertionError: A `with graph.as_default()` block is open.
    """
    if not default_graphs.is_empty:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared "
            "graph, exit the nesting and create a new graph."
        )
    default_graphs.implicit = None


@export("get_default_session")
def get_default_session() -> Any:
    """The innermost session made default in this thread, None when there is none."""
    return sessions.top()


def graph_of(values: Iterable[Any]) -> Graph:
    """The graph of the tensors, variables and operations among `values`, else the default one.

    While a function is built that may use them, its body.

    Raises:
        ValueError: Two of them belong to different graphs.
    """
    found: Graph | None = None
    first: Any = None
    for value in values:
        if isinstance(value, list | tuple):
            value = first_symbolic(value)
        if not isinstance(value, Symbolic | Operation):
            continue
        graph = default_graphs.receiving(value.graph)
        if found is None:
            found, first = graph, value
        elif graph is not found:
            raise ValueError(f"{value!r} must be from the same graph as {first!r}.")
    return get_default_graph() if found is None else found


def apply_op(op_type: str, *values: Any, name: str | None = None, **attrs: Any) -> Any:
    """Adds one node of `op_type` to the graph of its inputs, see `Graph.apply`."""
    for value in values:
        if type(value) is Tensor:
            graph = default_graphs.receiving(value.op.graph)
            return graph.apply(op_type, values, attrs, name)
    return graph_of(values).apply(op_type, values, attrs, name)


def output_of(op_type: str, *values: Any, name: str | None = None, **attrs: Any) -> Tensor:
    """The output of one more node of `op_type`, which has one; otherwise as `apply_op`."""
    tensor: Tensor = apply_op(op_type, *values, name=name, **attrs)
    return tensor


@export("convert_to_tensor")
def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    dtype_hint: Any = None,
) -> Tensor:
    """`value` as a tensor; the same tensor when it is one.

    Args:
        value: A tensor, variable, IndexedSlices, shape, number, array, or nested lists of those.
        dtype: The dtype it must have or get; None for TensorFlow's default (float32, int32).
        name: The name of a constant that is made.
        preferred_dtype: A dtype that is used where possible.
        dtype_hint: A dtype that is used where possible.

    Raises:
        TypeError: A Python value that is not of `dtype`.
        ValueError: A tensor of another dtype; None; a partially known shape.
    """
    preferred = dtype_hint if preferred_dtype is None else preferred_dtype
    return convert(
        graph_of((value,)),
        value,
        _dtype(dtype),
        name,
        _dtype(preferred),
    )


def operand(
    value: Any, label: str | None, name: str, dtype: DType | None = None
) -> tuple[Tensor, str]:
    """`value` as the operand of a node called `name`, and what to call the node.

    A tensor is itself. What becomes a constant is named after the node, as `name/label`
    (`name/Const` without a label), and the node's name is taken for both.
    """
    if isinstance(value, Composite):
        return value, name  # type: ignore[return-value]  # it has a dtype, and `Graph.apply` takes it
    if isinstance(value, Symbolic):
        return convert(graph_of((value,)), value, dtype), name
    graph = get_default_graph()
    with graph.name_scope(name) as scope:
        return convert(graph, value, dtype, label), scope


def _dtype(value: Any) -> DType | None:
    return None if value is None else as_dtype(value).base


@export("name_scope")
@contextmanager
def name_scope(
    name: str | None, default_name: str | None = None, values: Sequence[Any] | None = None
) -> Iterator[str]:
    """Puts the names of nodes made inside under `name/`.

    Args:
        name: The scope; one that ends in `/` is opened again as it is; None takes `default_name`.
        default_name: The name when `name` is None.
        values: Tensors whose graph is used, and made default inside.

    Yields:
        The full path with its final slash, which as a node's name means exactly that path.

    Raises:
        ValueError: Neither name is given while `values` is, or the name cannot be one.
    """
    if name is None and default_name is None and values is not None:
        raise ValueError("At least one of name (None) and default_name (None) must be provided.")
    graph = graph_of(values or ())
    with graph.as_default(), graph.name_scope(default_name if name is None else name) as scope:
        yield scope


@export("device")
def device(device_name_or_function: Any) -> AbstractContextManager[None]:
    """Pins the nodes made inside.

    Args:
        device_name_or_function: A full or partial device name, of which scopes further in override
            the parts they name; a function from the operation to a device name, which replaces what
            scopes further in asked for; None to ignore all scopes further out.

    Raises:
        InvalidArgumentError: The name is not a device name.
    """
    return get_default_graph().device(device_name_or_function)


@export("control_dependencies")
def control_dependencies(control_inputs: Sequence[Any] | None) -> AbstractContextManager[None]:
    """Makes the nodes created inside wait for `control_inputs`.

    Args:
        control_inputs: Operations, tensors or variables; None to suspend the blocks further out.
    """
    return get_default_graph().control_dependencies(control_inputs)


@export("colocate_with")
def colocate_with(op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
    """Puts the nodes made inside on the device of `op`; device scopes further out do not apply."""
    return get_default_graph().colocate_with(op, ignore_existing)


@export("container")
def container(container_name: str) -> AbstractContextManager[str]:
    """Keeps variables and queues made inside in the resource container of that name."""
    return get_default_graph().container(container_name)


@export("init_scope")
def init_scope() -> AbstractContextManager[None]:
    """Suspends control dependencies inside, for what must run before everything else."""
    return get_default_graph().init_scope()


@export("add_to_collection")
def add_to_collection(name: Hashable, value: Any) -> None:
    """Appends `value` to a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


@export("add_to_collections")
def add_to_collections(names: Any, value: Any) -> None:
    """Appends `value` to collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


@export("get_collection")
def get_collection(key: Hashable, scope: str | None = None) -> list[Any]:
    """A copy of a collection of the default graph, see `Graph.get_collection`."""
    return get_default_graph().get_collection(key, scope)


@export("get_collection_ref")
def get_collection_ref(key: Hashable) -> list[Any]:
    """A collection of the default graph itself."""
    return get_default_graph().get_collection_ref(key)


@export("op_scope")
@contextmanager
def op_scope(
    values: Sequence[Any], name: str | None, default_name: str | None = None
) -> Iterator[str]:
    """The old form of `name_scope`, with `values` first."""
    with name_scope(name, default_name, values) as scope:
        yield scope
