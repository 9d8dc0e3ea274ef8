"""`tf.while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.shapes.tensor_shape import to_shape
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control import functional, structures
from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.shapes import Shape


@export("while_loop")
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeats `body` while `cond` is true.

    Args:
        cond: From the loop variables to a boolean scalar tensor.
        body: From the loop variables to the next ones: the same structure, dtypes and shapes.
        loop_vars: A list or tuple of tensors or nested structures, the first values.
        shape_invariants: Shapes, or specs such as `TensorSpec`, that hold in every iteration, in
            the structure of `loop_vars`; the static shapes of `loop_vars` when None.
        parallel_iterations: At least 1. Iterations run one after another here.
        back_prop: Whether gradients flow through the loop.
        swap_memory: Accepted for TensorFlow's sake.
        name: Name of the scope.
        maximum_iterations: At most so many iterations, an integer or scalar tensor.
        return_same_structure: Return a list of one variable as such.

    Returns:
        The loop variables after the last iteration, nested as `body` returns them; the variable
        itself where there is only one.

    Raises:
        TypeError: A function is not callable, or the results of `body` have other dtypes.
        ValueError: There are no loop variables, or `body` returns another structure or shapes.
    """
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if parallel_iterations < 1:
        raise TypeError("parallel_iterations must be a positive integer.")
    if not loop_vars:
        raise ValueError("No loop variables provided")
    graph = get_default_graph()
    if graph.is_eager:
        return _at_once(cond, body, loop_vars, maximum_iterations, return_same_structure)
    with graph.as_default(), graph.name_scope(name or "while"):
        loop = _Loop(graph, loop_vars, shape_invariants, maximum_iterations)
        results = loop.run(cond, body, back_prop, parallel_iterations)
    is_one = isinstance(loop_vars, list | tuple) and len(tree.flatten(loop_vars)) == 1
    return results[0] if is_one and not return_same_structure else results


def _at_once(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, limit: Any, same: bool
) -> Any:
    """The loop in eager execution."""

    def converted(structure: Any) -> Any:
        tensors, rebuild = structures.tensors_of(structure)
        return rebuild(tensors)

    values, done = converted(loop_vars), 0
    while (limit is None or done < int(limit)) and cond(*values):
        result = body(*values)
        if len(values) == 1 and not isinstance(result, list | tuple):
            result = (result,)
        values, done = converted(result), done + 1
    return values[0] if len(values) == 1 and not same else values


class _Loop:
    """The loop variables of one `while_loop`, as a structure and as tensors."""

    def __init__(self, graph: Graph, loop_vars: Any, invariants: Any, limit: Any) -> None:
        self.graph = graph
        self.structure = loop_vars
        self.start, self.rebuild = structures.tensors_of(loop_vars)
        self.start = [
            graph.apply("Identity", (tensor,), {}) if tensor.dtype.is_ref else tensor
            for tensor in self.start
        ]
        self.shapes = self._shapes(invariants)
        self.limit = None if limit is None else convert_to_tensor(limit, name="maximum_iterations")
        if self.limit is not None and self.limit.shape.ndims not in (None, 0):
            raise ValueError(f"maximum_iterations must be a scalar, saw shape: {self.limit.shape}")
        self.is_sequence = isinstance(loop_vars, list | tuple)
        self.returned = loop_vars  # as the body returns it, which may be a tuple for a list

    def _shapes(self, invariants: Any) -> list[Shape]:
        if invariants is None:
            return [tensor._shape for tensor in self.start]
        given: list[Any] = []
        paired = tree.flatten_up_to(self.structure, invariants, check_types=False)
        for leaf, shape in zip(tree.flatten(self.structure), paired, strict=True):
            parts = len(structures.tensors_of(leaf)[0])
            shape = getattr(shape, "shape", shape)  # that of a spec
            if parts == 1:
                given.append(to_shape(shape))
            else:  # the values' shape tells that of what goes with them
                given += _part_shapes(parts, shape)
        for tensor, shape in zip(self.start, given, strict=True):
            if tensor.dtype.base is not dtypes.variant and not _fits(tensor._shape, shape):
                raise ValueError(
                    f"The shape invariant specified for {tensor.name} is not compatible with the "
                    f"initial shape of the loop variable. It enters the loop with shape "
                    f"{shapes.text(tensor._shape)}, but the specified shape invariant is "
                    f"{shapes.text(shape)}."
                )
        return [
            tensor._shape if tensor.dtype.base is dtypes.variant else shape
            for tensor, shape in zip(self.start, given, strict=True)
        ]

    def run(
        self,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        back_prop: bool,
        parallel_iterations: int,
    ) -> Any:
        """Adds the loop and gives the structure of its results."""
        start, sizes = list(self.start), list(self.shapes)
        counting = self.limit is not None
        if counting:
            start.insert(0, convert_to_tensor(0, self.limit.dtype.base, "iteration"))  # type: ignore[union-attr]
            sizes.insert(0, ())

        def condition(args: Sequence[Tensor]) -> Tensor:
            found = convert_to_tensor(self._call(cond, args[counting:]), name="cond")
            if found.dtype.base is not dtypes.bool_:
                raise TypeError(
                    f"Input 'input' of 'LoopCond' Op has type {found.dtype.name} that does not "
                    f"match expected type of bool: cond must return a boolean tensor, got {found!r}"
                )
            if counting:
                graph = found.op.graph
                below = graph.apply("Less", (args[0], self.limit), {})
                found = graph.apply("LogicalAnd", (below, found), {})
            return found

        def step(args: Sequence[Tensor]) -> list[Tensor]:
            results = self._next(body, args[counting:])
            if counting:
                results.insert(0, args[0] + 1)
            return results

        op = functional.while_op(
            self.graph,
            start,
            sizes,
            condition,
            step,
            "Exit",
            parallel_iterations=parallel_iterations,
        )
        if not back_prop:
            op._set_attr("_back_prop", False)
        ended = op.outputs[counting : counting + len(self.start)]
        return tree.unflatten_as(self.returned, tree.flatten(self.rebuild(ended)))

    def _call(self, function: Callable[..., Any], args: Sequence[Tensor]) -> Any:
        structure = self.rebuild(args)
        return function(*structure) if self.is_sequence else function(structure)

    def _next(self, body: Callable[..., Any], args: Sequence[Tensor]) -> list[Tensor]:
        result = self._call(body, args)
        one = self.is_sequence and len(self.structure) == 1
        if one and not isinstance(result, list | tuple):
            result = [result]
        self.returned = result
        same_kind = result
        if self.is_sequence and isinstance(result, list | tuple) and _is_plain(self.structure):
            same_kind = type(self.structure)(result)
        try:
            structures.require_same(self.structure, same_kind)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "The two structures don't have the same nested structure: the body of a loop must "
                f"return what its loop variables are.\n\nFirst structure: {self.structure}\n\n"
                f"Second structure: {result}"
            ) from error
        tensors, _ = structures.tensors_of(result)
        return [
            self._checked(tensor, start, shape, arg)
            for tensor, start, shape, arg in zip(
                tensors, self.start, self.shapes, args, strict=True
            )
        ]

    def _checked(self, tensor: Tensor, start: Tensor, shape: Shape, arg: Tensor) -> Tensor:
        graph = arg.op.graph
        if tensor.op.graph is not graph:
            tensor = graph.adopted(tensor)
        if tensor.dtype.is_ref:
            tensor = graph.apply("Identity", (tensor,), {})
        if tensor.dtype.base is not start.dtype.base:
            raise TypeError(
                f"The loop variable {start.name} has dtype {start.dtype.base.name} when the loop "
                f"is entered, but {tensor.dtype.base.name} after one iteration ({tensor!r})"
            )
        if start.dtype.base is not dtypes.variant and not _fits(tensor._shape, shape):
            raise ValueError(
                f"The shape for {arg.name} is not an invariant for the loop. It enters the loop "
                f"with shape {shapes.text(shape)}, but has shape {shapes.text(tensor._shape)} "
                "after one iteration. Provide shape invariants using either the "
                "`shape_invariants` argument of tf.while_loop or set_shape() on the loop variables."
            )
        return tensor


def _is_plain(structure: Any) -> bool:
    return type(structure) in (list, tuple)


def _part_shapes(parts: int, shape: Any) -> list[Shape]:
    known = to_shape(shape)
    if parts == 3:  # a SparseTensor: its invariant is the shape of what it stands for
        rank = None if known is None else len(known)
        return [(None, rank), (None,), (rank,)]
    return [known, (None,)]


def _fits(shape: Shape, invariant: Shape) -> bool:
    """Whether every tensor of static shape `shape` has the shape `invariant`."""
    if invariant is None:
        return True
    if shape is None or len(shape) != len(invariant):
        return False
    return all(want is None or want == size for size, want in zip(shape, invariant, strict=True))
