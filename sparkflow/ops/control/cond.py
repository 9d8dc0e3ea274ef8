"""`tf.cond`, `tf.case`, `tf.switch_case`."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.graph.functions.function_graph import FunctionGraph
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.control import afterwards, functional, structures
from sparkflow_runtime import dtypes

Branch = Callable[[], Any]


@export("cond")
def cond(
    pred: Any,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Branch | None = None,
    fn2: Branch | None = None,
) -> Any:
    """The result of one of two functions, chosen when the graph runs.

    Only the nodes made inside the function that is chosen run.

    Args:
        pred: A boolean scalar tensor.
        true_fn: Called once while the graph is built; its result is taken when `pred` is true.
        false_fn: The same for false; the results must have equal structure and dtypes.
        strict: Keep a list or tuple of one result what it is. Else each function may return such
            a list or the result itself, and the result itself is given.
        name: Name of the scope.
        fn1: Old name of `true_fn`.
        fn2: Old name of `false_fn`.

    Returns:
        Tensors in the structure that the functions return.

    Raises:
        TypeError: `pred` is a Python bool, a function is not callable, or the results differ in
            structure.
        ValueError: `pred` is no scalar, a function returns None, or the results differ in dtype.
    """
    true_fn = _either("true_fn", true_fn, "fn1", fn1)
    false_fn = _either("false_fn", false_fn, "fn2", fn2)
    if not callable(true_fn):
        raise TypeError("true_fn must be callable.")
    if not callable(false_fn):
        raise TypeError("false_fn must be callable.")
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    graph = get_default_graph()
    if graph.is_eager:
        held: Any = convert_to_tensor(pred)
        chosen: Any = true_fn() if held else false_fn()
        return chosen if strict else _unpacked(chosen)
    with graph.as_default(), graph.name_scope(name or "cond"):
        condition = convert_to_tensor(pred, name="pred")
        if condition.shape.ndims not in (None, 0):
            raise ValueError(
                f"Shape must be rank 0 but is rank {condition.shape.ndims} for the predicate of "
                f"tf.cond: {condition!r}"
            )
        if condition.dtype.base is not dtypes.bool_:
            raise TypeError(
                f"Input 'pred' of 'Switch' Op has type {condition.dtype.base.name} that does not "
                "match expected type of bool."
            )
        branches = [
            _built(graph, "cond_true", "true_fn", true_fn, strict),
            _built(graph, "cond_false", "false_fn", false_fn, strict),
        ]
        _require_alike(branches, "true_fn and false_fn", "tf.cond")

        def call(bodies: Sequence[FunctionGraph]) -> Operation:
            return functional.if_op(graph, condition, bodies, "Merge")

        holds = [lambda: condition, lambda: graph.apply("LogicalNot", (condition,), {})]
        return _called(graph, branches, holds, call)


class _Built:
    """A branch that was built: its body, what the function returned, how to return it again."""

    def __init__(self, graph: FunctionGraph, result: Any, strict: bool) -> None:
        if not strict:
            result = _unpacked(result)
        self.graph = graph
        self.structure = result
        tensors, rebuild = structures.tensors_of(result)
        if not tensors:
            raise ValueError("'true_fn' and 'false_fn' must return at least one result.")
        # What an update returns is the variable; outside, it is its value then.
        graph.outputs = [
            graph.apply("Identity", (t,), {}) if t.dtype.is_ref or t in graph.inputs else t
            for t in map(_local(graph), tensors)
        ]
        self.rebuild: structures.Rebuild = rebuild
        if not strict:
            self.rebuild = lambda new: _unpacked(rebuild(new))


def _unpacked(result: Any) -> Any:
    """The one element of a list or tuple of one; anything else as it is."""
    return result[0] if isinstance(result, list | tuple) and len(result) == 1 else result


def _local(graph: FunctionGraph) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor if tensor.op.graph is graph else graph.adopted(tensor)


def _built(graph: Graph, label: str, called: str, function: Branch, strict: bool) -> _Built:
    body = FunctionGraph(graph.new_function_name(label), graph)
    body.afterwards = []
    with body.as_default():
        result = function()
        if result is None:
            raise ValueError(f"'{called}' must have a return value.")
        return _Built(body, result, strict)


def _require_alike(branches: Sequence[_Built], which: str, where: str) -> None:
    first, *others = branches
    for other in others:
        try:
            structures.require_same(first.structure, other.structure)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{which} arguments to {where} must have the same number, type, and overall "
                f"structure of return values. {first.structure!r} vs. {other.structure!r}"
            ) from None
        kinds = [[t.dtype.base for t in each.graph.outputs] for each in (first, other)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"Outputs of {which} must have the same type(s). Received "
                f"{dtypes.names(kinds[0])} vs. {dtypes.names(kinds[1])}"
            )


def _either(new_name: str, new: Any, old_name: str, old: Any) -> Any:
    if old is None:
        return new
    if new is not None:
        raise TypeError(f"cond(): {old_name} and {new_name} may not be set simultaneously.")
    return old


@export("switch_case")
def switch_case(
    branch_index: Any,
    branch_fns: Any,
    default: Branch | None = None,
    name: str = "switch_case",
) -> Any:
    """The result of one of several functions, chosen by an index when the graph runs.

    Args:
        branch_index: An int32 scalar tensor.
        branch_fns: A list of functions, or a dictionary or list of pairs (index, function).
        default: Taken for other indices; the function of the largest index when None.
        name: Name of the scope.

    Raises:
        TypeError: `branch_index` is a Python int, or something that should be is not callable.
        ValueError: Indices are missing or repeated, or the results do not fit together.
    """
    if isinstance(branch_index, int):
        raise TypeError(
            f"branch_index must not be a Python int, got {branch_index}; call the function itself"
        )
    functions = _by_index(branch_fns)
    if default is None:
        default = functions[max(functions)]
    if not callable(default):
        raise TypeError("default must be callable.")
    graph = get_default_graph()
    if graph.is_eager:
        return functions.get(int(convert_to_tensor(branch_index)), default)()
    with graph.as_default(), graph.name_scope(name):
        index = convert_to_tensor(branch_index, dtypes.int32, name="branch_index")
        listed = [functions.get(place, default) for place in range(max(functions) + 1)]
        branches = [
            _built(graph, "switch_case", f"branch {place}", function, False)
            for place, function in enumerate([*listed, default])
        ]
        _require_alike(branches, "branch_fns", "tf.switch_case")

        def call(bodies: Sequence[FunctionGraph]) -> Operation:
            return functional.case_op(graph, index, bodies, "Merge")

        return _called(graph, branches, _are_chosen(graph, index, len(listed)), call)


def _are_chosen(graph: Graph, index: Tensor, count: int) -> list[Callable[[], Tensor]]:
    """Per branch of a `Case` what tells whether it runs; the last one for all other indices."""

    def otherwise() -> Tensor:
        known = [graph.apply("Equal", (index, place), {}) for place in range(count)]
        stacked = graph.apply("Pack", (known,), {"axis": 0})
        chosen: Tensor = graph.apply("LogicalNot", (graph.apply("Any", (stacked, 0), {}),), {})
        return chosen

    def is_at(place: int) -> Callable[[], Tensor]:
        return lambda: graph.apply("Equal", (index, place), {})

    return [*map(is_at, range(count)), otherwise]


def _called(
    graph: Graph,
    branches: Sequence[_Built],
    conditions: Sequence[Callable[[], Tensor]],
    call: Callable[[Sequence[FunctionGraph]], Operation],
) -> Any:
    """The results of the branch that runs, when what it left to be done afterwards is done."""
    bodies = [each.graph for each in branches]
    count = len(bodies[0].outputs)
    afterwards.hand_out(bodies)
    op = call(bodies)
    done = afterwards.work(graph, bodies, conditions, op.outputs[count:-1])
    results = branches[0].rebuild(afterwards.waiting(graph, done, op.outputs[:count]))
    _tell_sparse_shapes(results, [each.structure for each in branches])
    return results


def _tell_sparse_shapes(results: Any, given: Sequence[Any]) -> None:
    """Gives sparse results the static shape that those of all branches have."""
    for made, *parts in zip(tree.flatten(results), *map(tree.flatten, given), strict=True):
        if isinstance(made, SparseTensor):
            known, *others = [part.shape for part in parts]
            for shape in others:
                known = known.most_specific_compatible_shape(shape)
            made.set_shape(known)


def _by_index(branch_fns: Any) -> dict[int, Branch]:
    pairs = list(branch_fns.items()) if isinstance(branch_fns, Mapping) else list(branch_fns)
    if not pairs:
        raise ValueError("Must provide at least one item in branch_fns")
    if all(callable(each) for each in pairs):
        pairs = list(enumerate(pairs))
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Each entry in branch_fns must be a 2-tuple. Received {pair}.")
        if not isinstance(pair[0], int):
            raise TypeError(f"key must be a Python `int`, got {pair[0]!r}")
        if not callable(pair[1]):
            raise TypeError(f"fn for key {pair[0]} must be callable.")
    repeated = [key for key, count in collections.Counter(k for k, _ in pairs).items() if count > 1]
    if repeated:
        raise ValueError(f"branch indices must be unique, {repeated} are not")
    if sorted(key for key, _ in pairs) != list(range(len(pairs))):
        raise ValueError(
            f"branch indices must form contiguous range of [0 to {len(pairs)}) but found "
            f"{{{','.join(str(key) for key, _ in sorted(pairs))}}}"
        )
    return dict(pairs)


@export("case")
def case(
    pred_fn_pairs: Any,
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the function of the first true condition.

    Args:
        pred_fn_pairs: A list of pairs (boolean scalar tensor, function), or a dictionary.
        default: Called when no condition is true; without it that is an error when it happens.
        exclusive: Make it an error when several conditions are true.
        strict: Keep a list of one result a list.
        name: Name of the scope.

    Raises:
        TypeError: Something is not a pair, a boolean tensor or callable.
    """
    from sparkflow.ops.control.debugging import Assert

    pairs = _pairs(pred_fn_pairs, default)
    graph = get_default_graph()
    with graph.as_default(), graph.name_scope(name):
        predicates = [convert_to_tensor(pred) for pred, _ in pairs]
        checks: list[Operation] = []
        stacked = graph.apply("Pack", (predicates,), {"axis": 0}, "preds_c")
        count = graph.apply("Sum", (graph.apply("Cast", (stacked,), {"DstT": dtypes.int32}), 0), {})
        if exclusive:
            few = graph.apply("Less", (count, 2), {})
            checks.append(
                Assert(
                    few, ["More than one condition evaluated as True but exclusive=True.", stacked]
                )
            )
        if default is None:
            some = graph.apply("Greater", (count, 0), {})
            checks.append(
                Assert(some, ["None of conditions evaluated as True. Conditions: ", stacked])
            )
            *rest, (_, otherwise) = pairs
        else:
            rest, otherwise = list(pairs), default
        with graph.control_dependencies(checks):
            return _chained(rest, predicates, otherwise, strict)


def _chained(
    pairs: Sequence[tuple[Any, Branch]],
    predicates: Sequence[Tensor],
    otherwise: Branch,
    strict: bool,
) -> Any:
    """Nested conditions, tested from the first to the last."""
    if not pairs:
        # One branch only: as TensorFlow, under a condition that holds.
        return cond(convert_to_tensor(True), otherwise, otherwise, strict=strict)
    (_, function), *others = pairs

    def continued() -> Any:
        return _chained(others, predicates[1:], otherwise, strict) if others else otherwise()

    return cond(predicates[0], function, continued, strict=strict)


def _pairs(pred_fn_pairs: Any, default: Any) -> list[tuple[Any, Branch]]:
    pairs: list[Any]
    if isinstance(pred_fn_pairs, Mapping):
        pairs = list(pred_fn_pairs.items())
        if not isinstance(pred_fn_pairs, collections.OrderedDict):
            pairs.sort(key=lambda pair: str(getattr(pair[0], "name", pair[0])))
    elif isinstance(pred_fn_pairs, list | tuple):
        pairs = list(pred_fn_pairs)
    else:
        raise TypeError(
            f"'pred_fn_pairs' must be a list, tuple, or dict. Received: {type(pred_fn_pairs)}"
        )
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple. Received {pair}.")
        if not callable(pair[1]):
            raise TypeError(f"fn for pred {pair[0]!r} must be callable.")
        if isinstance(pair[0], Symbolic) and pair[0]._to_tensor().dtype.base is not dtypes.bool_:
            raise TypeError(f"pred must be Tensor of type bool: {pair[0]!r}")
    if not pairs:
        raise ValueError("Must provide at least one item in pred_fn_pairs")
    if default is not None and not callable(default):
        raise TypeError("default must be callable.")
    return pairs
