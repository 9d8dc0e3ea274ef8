"""Creates the nodes that call functions: `If`, `Case` and `While` of bodies built before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sparkflow.graph.functions.function_graph import Forward, FunctionGraph
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import DType, resource
from sparkflow_runtime.ops import registry
from sparkflow_runtime.shapes import Shape

BuildBody = Callable[[Sequence[Tensor]], Sequence[Tensor]]


def union_of_captures(functions: Sequence[FunctionGraph]) -> list[Tensor]:
    """Gives all functions the captures that any of them needs, and returns what is captured."""
    for function in functions:
        function.drop_captures()
    wanted = list(dict.fromkeys(outer for function in functions for outer in function.captured))
    for function in functions:
        function.arrange_captures(wanted)
    return wanted


def _settle_handles(functions: Sequence[FunctionGraph], kept: Collection[Tensor] = ()) -> None:
    """Has variables behind handles captured as values where functions only read them.

    The gradient of a value is added up over the turns of a loop.

    Args:
        functions: The branches of a condition, or what a loop calls.
        kept: Handles that stay handles.
    """
    users: dict[Tensor, list[FunctionGraph]] = {}
    for function in functions:
        for outer in function.captured:
            if outer.dtype is resource:
                users.setdefault(outer, []).append(function)
    for handle, using in users.items():
        readers: list[Operation] = []
        awaited: list[Operation] = []
        for function in using:
            found = function.users_of_captured(handle)
            readers += found
            awaited += [each for op in found for each in function.awaited_outside(op)]
        if handle in kept or not readers or not all(_reads(op) for op in readers):
            continue
        graph = using[0].outer
        with (
            graph.as_default(),
            graph.colocate_with(handle.op, ignore_existing=True),
            graph.control_dependencies(awaited),
        ):
            dtype = readers[0].attr("dtype")
            read = graph.apply("ReadVariableOp", (handle,), {"dtype": dtype}, None)
        for function in using:
            function.settle_handle(handle, read)


def _asked_for(selector: Tensor) -> list[Tensor]:
    """The handles that decide on the branch, such as those of variables that may have no value."""
    ops = [selector.op, *(each.op for each in selector.op.inputs)]
    return [each for op in ops for each in op.inputs if each.dtype is resource]


def _reads(op: Operation) -> bool:
    return registry.find(op.type).reads_variable


def call_types(functions: Sequence[FunctionGraph], captured: Sequence[Tensor]) -> list[DType]:
    """The dtypes to pass captures with: references where a function changes the variable."""
    for function in functions:
        function.settle_references()
    found = []
    for index, outer in enumerate(captured):
        args = [function.inputs[index - len(captured)] for function in functions]
        by_reference = any(arg.dtype.is_ref for arg in args)
        for arg in args:  # all agree, or none could be called with the same inputs
            dtype = arg.dtype.base.ref if by_reference else arg.dtype.base
            arg.dtype = dtype
            arg.op._set_attr("T", dtype)
        found.append(outer.dtype.base.ref if by_reference else outer.dtype.base)
    return found


def if_op(
    graph: Graph, condition: Tensor, branches: Sequence[FunctionGraph], name: str
) -> Operation:
    """Adds an `If` of two branches.

    The branches have no arguments but captures, and outputs of equal dtypes.
    """
    then_branch, else_branch = (branch.function_name for branch in branches)
    attrs = {"then_branch": then_branch, "else_branch": else_branch}
    return _branching(graph, "If", condition, branches, attrs, name)


def case_op(graph: Graph, index: Tensor, branches: Sequence[FunctionGraph], name: str) -> Operation:
    """Adds a `Case`: the branch of an index, the last one for other indices. See `if_op`."""
    attrs = {"branches": [branch.function_name for branch in branches]}
    return _branching(graph, "Case", index, branches, attrs, name)


def _branching(
    graph: Graph,
    op_type: str,
    selector: Tensor,
    branches: Sequence[FunctionGraph],
    names: Mapping[str, object],
    name: str,
) -> Operation:
    if graph.is_on_device:  # a handle cannot be sent to another device, a value can
        _settle_handles(branches, kept=_asked_for(selector))
    captured = union_of_captures(branches)
    types = call_types(branches, captured)
    outputs = [branch.outputs for branch in branches]
    attrs = {
        "Tin": types,
        "Tout": [tensor.dtype.base for tensor in outputs[0]],
        "output_shapes": [_common([t._shape for t in each]) for each in zip(*outputs, strict=True)],
        **names,
    }
    return _call(graph, op_type, [selector, captured], attrs, branches, types, name)


def while_op(
    graph: Graph,
    start: Sequence[Tensor],
    shapes: Sequence[Shape],
    condition: Callable[[Sequence[Tensor]], Tensor],
    body: BuildBody,
    name: str,
    *,
    label: str = "while",
    forward: Callable[[Sequence[Tensor]], Forward] | None = None,
    parallel_iterations: int = 10,
) -> Operation:
    """Adds a `While`.

    Args:
        graph: Where the node goes.
        start: The loop variables before the first iteration.
        shapes: Their static shapes inside the loop.
        condition: From the loop variables to a boolean scalar.
        body: From the loop variables to the next ones.
        name: The node's name.
        label: What the functions are named after.
        forward: For a gradient: from the body's loop variables to what it is the gradient of.
        parallel_iterations: Kept as TensorFlow's attribute; iterations run one after another.

    Returns:
        The node; its first outputs are the loop variables after the last iteration.
    """
    cond_graph = FunctionGraph(graph.new_function_name(f"{label}_cond"), graph)
    with cond_graph.as_default():
        args = _inputs(cond_graph, start, shapes)
        cond_graph.outputs = [condition(args)]
    body_graph = FunctionGraph(graph.new_function_name(f"{label}_body"), graph)
    with body_graph.as_default():
        args = _inputs(body_graph, start, shapes)
        if forward is not None:
            body_graph.forward = forward(args)
        results = list(body(args))
    functions = (cond_graph, body_graph)
    body_graph.outputs = results
    _settle_handles(functions)
    captured = union_of_captures(functions)
    types = call_types(functions, captured)
    body_graph.outputs = [*results, *body_graph.inputs[len(start) :]]
    attrs = {
        "T": [*(tensor.dtype.base for tensor in start), *types],
        "cond": cond_graph.function_name,
        "body": body_graph.function_name,
        "output_shapes": [*shapes, *(outer._shape for outer in captured)],
        "parallel_iterations": parallel_iterations,
    }
    return _call(graph, "While", [[*start, *captured]], attrs, functions, types, name)


def _inputs(
    function: FunctionGraph, start: Sequence[Tensor], shapes: Sequence[Shape]
) -> list[Tensor]:
    return [
        function.add_input(tensor.dtype.base, shape, "Enter")
        for tensor, shape in zip(start, shapes, strict=True)
    ]


def _call(
    graph: Graph,
    op_type: str,
    inputs: Sequence[Tensor | Sequence[Tensor]],
    attrs: dict[str, object],
    functions: Sequence[FunctionGraph],
    types: Sequence[DType],
    name: str,
) -> Operation:
    if not any(function.is_stateful or _calls_state(function) for function in functions):
        op_type = f"Stateless{op_type}"
    waits_for = list(dict.fromkeys(op for function in functions for op in function.waits_for))
    references = [
        outer
        for outer, dtype in zip(_captured(inputs, len(types)), types, strict=True)
        if dtype.is_ref
    ]
    for function in functions:
        graph.add_function(function.function_name, function)
    with graph.as_default(), graph.control_dependencies(waits_for):
        op = _beside(graph, references, lambda: graph.add_node(op_type, inputs, attrs, name))
    return op


def _captured(inputs: Sequence[Tensor | Sequence[Tensor]], count: int) -> Sequence[Tensor]:
    listed = inputs[-1]
    assert not isinstance(listed, Tensor)
    return listed[len(listed) - count :]


def _beside(graph: Graph, tensors: Sequence[Tensor], make: Callable[[], Operation]) -> Operation:
    """Makes a node on the device of the variables it changes."""
    if not tensors:
        return make()
    with graph.colocate_with(tensors[0].op):
        return _beside(graph, tensors[1:], make)


def _calls_state(function: FunctionGraph) -> bool:
    return any(tensor.dtype.is_ref for tensor in function.inputs)


def _common(shapes: Sequence[Shape]) -> Shape:
    """What is known of a shape that is one of several."""
    first, *others = shapes
    for other in others:
        if first is None or other is None or len(first) != len(other):
            return None
        first = tuple(a if a == b else None for a, b in zip(first, other, strict=True))
    return first
