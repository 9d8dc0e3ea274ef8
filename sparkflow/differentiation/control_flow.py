"""Gradients of branches, loops and calls.

The gradient of a call is a call of a function built here. It reads tensors of the forward call from
the forward node's tape, so nothing is computed twice; the master has the forward function record
just what is read (`sparkflow_runtime.passes.functions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow.differentiation.backward import backward
from sparkflow.graph.functions.function_graph import Forward, FunctionGraph
from sparkflow.graph.functions.imported_function import function_graph_of
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.slicing import sizes_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control import functional
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops import registry

Grads = Sequence[Tensor | None]
Found = Sequence[Tensor | IndexedSlices | None]


def if_gradient(_: Any, op: Operation, *grads: Tensor | None) -> Found:
    """The gradient of an `If`: an `If` of the branches' gradients."""
    names = (op.attr("then_branch"), op.attr("else_branch"))
    return _branch_gradient(op, names, grads)


def case_gradient(_: Any, op: Operation, *grads: Tensor | None) -> Found:
    """The gradient of a `Case`: a `Case` of the branches' gradients."""
    return _branch_gradient(op, op.attr("branches"), grads)


def call_gradient(_: Any, op: Operation, *grads: Tensor | None) -> Found:
    """The gradient of a call: a `Case` of one branch."""
    found = _branch_gradient(op, [op.attr("f")], grads, selector=convert_to_tensor(0))
    return found[1:]  # without the selector's


def _branch_gradient(
    op: Operation, names: Sequence[str], grads: Grads, selector: Tensor | None = None
) -> Found:
    graph = get_default_graph()
    given = op.inputs if selector is not None else op.inputs[1:]
    choice = op.inputs[0] if selector is None else selector
    bodies: list[FunctionGraph] = []
    found: list[Found] = []
    for name in names:
        forward = _function(op, name, given)
        body = FunctionGraph(graph.new_function_name(f"{name}_grad"), graph)
        with body.as_default():
            body.forward = Forward(forward, op, op.outputs[-1], convert_to_tensor(0), list(given))
            found.append(_inner(body, forward, forward.inputs, grads[:-1], grads[-1]))
        bodies.append(body)
    wanted = [
        index for index in range(len(given)) if any(each[index] is not None for each in found)
    ]
    rows = {index: _index_dtype([each[index] for each in found]) for index in wanted}
    for body, each in zip(bodies, found, strict=True):
        with body.as_default():
            for index in wanted:
                like, grad, of_rows = given[index], each[index], rows[index]
                if of_rows is None:
                    body.outputs.append(_or_zeros(body, _dense(grad), like))
                else:
                    body.outputs += _rows_or_none(body, grad, like, of_rows)
    results: list[Tensor | IndexedSlices | None] = [None] * len(given)
    if wanted:
        make = functional.if_op if "then_branch" in op._attrs else functional.case_op
        local = choice if choice.op.graph is graph else graph.adopted(choice)
        made = iter(make(graph, local, bodies, "Merge").outputs)
        for index in wanted:
            first = next(made)
            if rows[index] is None:
                results[index] = first
            else:
                results[index] = IndexedSlices(first, next(made), _sizes(graph, given[index]))
    return [None, *results]


def _index_dtype(grads: Found) -> DType | None:
    """The dtype of the branches' row numbers; None where one of the gradients is dense."""
    given = [grad for grad in grads if grad is not None]
    if not all(isinstance(grad, IndexedSlices) for grad in given):
        return None
    found = {grad.indices.dtype.base for grad in given if isinstance(grad, IndexedSlices)}
    return found.pop() if len(found) == 1 else dtypes.int64


def _rows_or_none(
    body: FunctionGraph, grad: Tensor | IndexedSlices | None, like: Tensor, indices: DType
) -> list[Tensor]:
    """The rows and row numbers of a branch's gradient: none where the branch reads nothing."""
    if isinstance(grad, IndexedSlices):
        values, places = grad.values, grad.indices
        if places.dtype.base is not indices:
            places = body.apply("Cast", (places,), {"DstT": indices})
        return [_or_zeros(body, each, each) for each in (values, places)]
    row = body.apply("Slice", (_sizes(body, like), [1], [-1]), {})
    shape = body.apply("ConcatV2", ([[0], row], 0), {})
    zero = body.convert(0, _held_dtype(like) or like.dtype.base, "zero")
    return [body.apply("Fill", (shape, zero), {}), body.convert([], indices, "no_rows")]


def _sizes(graph: Graph, like: Tensor) -> Tensor:
    """The shape of a tensor, or of the variable behind a handle."""
    if like.dtype.base is not dtypes.resource:
        return sizes_of(graph, like)
    result: Tensor = graph.apply("VariableShape", (like,), {})
    return result


def _inner(
    body: FunctionGraph,
    forward: FunctionGraph,
    xs: Sequence[Tensor],
    grads: Grads,
    tape_grad: Tensor | None,
) -> Found:
    """The gradients of arguments of `forward`, given those of its results and of its tape."""
    ys: list[Tensor] = []
    seeds: list[Tensor] = []
    for y, grad in zip(forward.outputs, grads, strict=True):
        if grad is not None and has_gradient(y):
            ys.append(y)
            # The body's own tensor: the gradient's shape is that of this branch's result, and what
            # is learnt of it holds here only.
            seeds.append(grad if grad.op.graph is body else body.adopted(grad))
    if tape_grad is not None:
        for tensor in list(forward.taped):
            if has_gradient(tensor):
                ys.append(tensor)
                seeds.append(_taped_gradient(body, tensor, tape_grad))
    if not ys:
        return [None] * len(xs)
    return backward(body, ys, xs, seeds, forward=forward)


def _taped_gradient(body: FunctionGraph, tensor: Tensor, tape_grad: Tensor) -> Tensor:
    assert body.forward is not None
    value: Tensor = body.apply(
        "_TapeGradientRead",
        (tape_grad, body.forward.index, body.adopted(tensor)),
        {"name": tensor.name},
    )
    return value


def _dense(grad: Any) -> Tensor | None:
    if isinstance(grad, IndexedSlices):
        return grad._to_tensor()
    result: Tensor | None = grad
    return result


def has_gradient(tensor: Tensor) -> bool:
    """Whether gradients flow to a tensor of this dtype; to a handle, if to what it refers to."""
    base = _held_dtype(tensor) or tensor.dtype.base
    return base.is_floating or base.is_complex or base is dtypes.variant


def _held_dtype(handle: Tensor) -> DType | None:
    """The dtype of the variable that a handle refers to; None where it refers to something else."""
    if handle.dtype.base is not dtypes.resource:
        return None
    while (outer := handle.op.graph.stands_for(handle)) is not None:
        handle = outer
    is_variable = registry.lookup(handle.op.type).is_variable
    return handle.op.attr("dtype") if is_variable else None


def _or_zeros(graph: Graph, grad: Tensor | None, like: Tensor) -> Tensor:
    if grad is None:
        return _zeros(graph, like)
    if grad.op.graph is not graph or grad.op.type == "_Arg":
        grad = graph.apply("Identity", (grad,), {})
    return grad


def _zeros(graph: Graph, like: Tensor) -> Tensor:
    result: Tensor
    held = _held_dtype(like)
    if held is not None:
        zero = graph.convert(0, held, "zero")
        result = graph.apply("Fill", (_sizes(graph, like), zero), {}, "zeros")
    else:
        op_type = "_UnsetLike" if like.dtype.base is dtypes.variant else "ZerosLike"
        result = graph.apply(op_type, (like,), {})
    return result


def while_gradient(_: Any, op: Operation, *grads: Tensor | None) -> list[Tensor | None]:
    """The gradient of a `While`: a loop over its iterations, from the last to the first.

    Its loop variables are a counter, the gradients of the forward loop variables that matter, and
    the sums so far of the gradients of what the loop captured.
    """
    if op._attrs.get("_back_prop") is False:
        return [None] * len(op.inputs)
    graph = get_default_graph()
    forward = _function(op, op.attr("body"), op.inputs)
    tape, tape_grad = op.outputs[-1], grads[-1]
    invariant = [y is x for x, y in zip(forward.inputs, forward.outputs, strict=True)]
    flowing = _flowing(forward, grads[:-1], tape_grad is not None)
    variables = [index for index in flowing if not invariant[index]]
    constants = [index for index in flowing if invariant[index]]
    if not flowing:
        return [None] * len(op.inputs)
    attrs = {"function": forward.function_name}
    start = [graph.apply("_TapeLength", (tape,), attrs)]
    order = [*variables, *constants]
    for index in order:
        grad = grads[index]
        like = op.inputs[index] if invariant[index] else op.outputs[index]
        start.append(_zeros(graph, like) if grad is None else grad)

    def condition(args: Sequence[Tensor]) -> Tensor:
        more: Tensor = args[0].op.graph.apply("Greater", (args[0], 0), {})
        return more

    def fixed(args: Sequence[Tensor]) -> Forward:
        inputs: list[Tensor | None] = [
            given if same else None for given, same in zip(op.inputs, invariant, strict=True)
        ]
        return Forward(forward, op, tape, args[0] - 1, inputs)

    def step(args: Sequence[Tensor]) -> list[Tensor]:
        body = args[0].op.graph
        assert isinstance(body, FunctionGraph)
        now: dict[int, Tensor] = dict(zip(order, args[1:], strict=True))
        seeds = [
            None if invariant[index] else now.get(index) for index in range(len(forward.outputs))
        ]
        xs = [forward.inputs[index] for index in order]
        found = [_dense(each) for each in _inner(body, forward, xs, seeds, tape_grad)]
        results = [args[0] - 1]
        for index, grad in zip(order, found, strict=True):
            if invariant[index]:
                results.append(_sum(body, now[index], grad))
            else:
                x = forward.inputs[index]
                results.append(_zeros(body, x) if grad is None else _or_zeros(body, grad, x))
        return results

    shapes = [(), *(_grad_shape(forward, index, invariant[index]) for index in order)]
    made = functional.while_op(
        graph,
        start,
        shapes,
        condition,
        step,
        "Exit",
        label=f"{op.attr('body')}_grad",
        forward=fixed,
    )
    gradients: list[Tensor | None] = [None] * len(op.inputs)
    for place, index in enumerate(order, 1):
        gradients[index] = made.outputs[place]
    return gradients


def _grad_shape(forward: FunctionGraph, index: int, invariant: bool) -> Any:
    tensor = forward.inputs[index]
    if tensor.dtype.base is dtypes.resource:
        return None  # that of the variable
    if invariant or forward.outputs[index]._shape == tensor._shape:
        return tensor._shape
    return None


def _sum(graph: Graph, total: Tensor, grad: Tensor | None) -> Tensor:
    if grad is None:
        return graph.apply("Identity", (total,), {})  # type: ignore[no-any-return]
    if total.dtype.base is dtypes.variant:
        return graph.apply("_AddVariants", ([total, grad],), {})  # type: ignore[no-any-return]
    return total + grad


def _flowing(forward: FunctionGraph, grads: Grads, whole_tape: bool) -> list[int]:
    """The loop variables that get a gradient: those the given ones depend on, in any iteration."""
    sources = {tensor: index for index, tensor in enumerate(forward.inputs) if has_gradient(tensor)}
    reached = {
        index
        for index, grad in enumerate(grads)
        if grad is not None and has_gradient(forward.inputs[index])
    }
    if whole_tape:
        for tensor in forward.taped:
            reached |= _dependencies(tensor, sources)
    while True:
        more = set(reached)
        for index in reached:
            more |= _dependencies(forward.outputs[index], sources)
        if more == reached:
            return sorted(reached)
        reached = more


def _dependencies(tensor: Tensor, sources: Mapping[Tensor, int]) -> set[int]:
    """The arguments that a tensor depends on in a way that gradients take."""
    found: set[int] = set()
    seen: dict[Tensor, None] = {}
    stack = [tensor]
    while stack:
        each = stack.pop()
        if each in seen:
            continue
        seen[each] = None
        if each in sources:
            found.add(sources[each])
        else:
            stack += [given for given in each.op.inputs if has_gradient(given)]
    return found


def _function(op: Operation, name: str, given: Sequence[Tensor]) -> FunctionGraph:
    """The function that an operation calls with these arguments, as a graph."""
    root = op.graph.root
    found = root.find_function(name)
    if isinstance(found, FunctionGraph):
        return found
    key = name, *(each for each in given if each.dtype.base is dtypes.resource)
    if key not in root._imported_bodies:
        root._imported_bodies[key] = function_graph_of(found, root, given)
    body: FunctionGraph = root._imported_bodies[key]
    return body
