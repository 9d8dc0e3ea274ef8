"""Work that a branch leaves to the graph around it: it is done after the call, for all branches.

Updates of replicas are such work. Others wait for them, so that a replica must take part in the
steps in which its condition does not hold, too; and the variables may be on several tasks, while a
branch runs on one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkflow.graph.functions.function_graph import FunctionGraph
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import identity
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry


@dataclass(frozen=True, slots=True)
class Afterwards:
    """What one branch leaves.

    Attributes:
        place: The operation that stands for the work in the branch.
        tensors: What the work needs of the branch.
        absent: Makes, in another branch, as many tensors of the same dtypes and shapes.
        work: Makes the work of a condition, [] bool, and these tensors, outside; what has run then.
    """

    place: Operation
    tensors: Sequence[Tensor]
    absent: Callable[[], Sequence[Tensor]]
    work: Callable[[Tensor, Sequence[Tensor]], Operation]


def branch_of(graph: Graph) -> FunctionGraph | None:
    """The branch that a graph is, None for other graphs."""
    if isinstance(graph, FunctionGraph) and graph.afterwards is not None:
        return graph
    return None


def hand_out(branches: Sequence[FunctionGraph]) -> None:
    """Makes what the work needs results of all branches, after those they have.

    Raises:
        InvalidArgumentError: Something in a branch that has effects waits for the work.
    """
    for branch in branches:
        for each in branch.afterwards or ():
            _require_last(branch, each.place)
            for other in branches:
                if other is branch:
                    branch.outputs += [_own(branch, tensor) for tensor in each.tensors]
                else:
                    with other.as_default():
                        other.outputs += each.absent()


def work(
    graph: Graph,
    branches: Sequence[FunctionGraph],
    conditions: Sequence[Callable[[], Tensor]],
    handed_out: Sequence[Tensor],
) -> list[Operation]:
    """Makes the work after the call; the operations that have run when it is done.

    Args:
        graph: Where the call is.
        branches: All of them.
        conditions: Per branch what makes a tensor, [] bool: whether it is the one that ran.
        handed_out: What the call gives beyond the branches' own results, see `hand_out`.
    """
    rest = list(handed_out)
    done = []
    with graph.as_default():
        for branch, condition in zip(branches, conditions, strict=True):
            for each in branch.afterwards or ():
                count = len(each.tensors)
                done.append(each.work(condition(), rest[:count]))
                del rest[:count]
    return done


def waiting(graph: Graph, done: Sequence[Operation], results: Sequence[Tensor]) -> list[Tensor]:
    """The results of a call for those who must see the work done."""
    if not done:
        return list(results)
    with graph.control_dependencies(done):
        return [identity(each) for each in results]


def _own(branch: FunctionGraph, tensor: Tensor) -> Tensor:
    local = tensor if tensor.op.graph is branch else branch.adopted(tensor)
    if local.dtype.is_ref or local in branch.inputs:
        return branch.apply("Identity", (local,), {})  # type: ignore[no-any-return]  # one output
    return local


def _require_last(branch: FunctionGraph, place: Operation) -> None:
    after = {place}
    for op in branch.get_operations():
        if after.isdisjoint(op.control_inputs) and after.isdisjoint(t.op for t in op.inputs):
            continue
        after.add(op)
        reads = any(tensor.dtype.is_ref for tensor in op.inputs)
        if reads or registry.lookup(op.type).stateful:
            raise InvalidArgumentError(
                message=f"{op.name!r} ({op.type}) runs after an optimizer's update inside a branch "
                "of tf.cond. Replicas make the update together, after the tf.cond: let what "
                "follows the update wait for the result of the tf.cond instead"
            )
