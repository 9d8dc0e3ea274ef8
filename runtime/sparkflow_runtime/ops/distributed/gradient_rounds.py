"""Rounds of gradients as ops: replicas meet in them, one of them applies the update for all.

These ops are sparkflow's own: TensorFlow's ConditionalAccumulator has neither weights nor replicas.
All gradients of one task meet in one node. At run time, a handle is the object of
`resources.gradient_rounds` itself; replicas whose graphs name the same rounds on the same task
share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.optimizers.weighted_mean import scaled, weighted_means
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    float_attr,
    int_attr,
    list_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.resources.replicas import meeting as gradient_rounds
from sparkflow_runtime.resources.replicas.rounds import Contribution, Rounds
from sparkflow_runtime.shapes import Shape

_WEIGHT = type_attr(frozenset({dtypes.float32, dtypes.float64}))
_REPLICA = int_attr(0, minimum=0)


class _RoundsOp(Op):
    stateful = True
    keeps_inputs = False
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


@dataclass(frozen=True, slots=True)
class Gradients:
    """One replica's contribution to the variables of one task.

    Attributes:
        dense: Dense gradients.
        sparse: Sparse gradients: pairs of indices [n] and values [n, ...].
    """

    dense: tuple[Array, ...]
    sparse: tuple[tuple[Array, Array], ...]


class NoGradients(Gradients):
    """The contribution of replicas without rows."""


@register
class GradientRounds(_RoundsOp):
    """The rounds that replicas meet in; those of the task if they have a shared_name."""

    is_ours = True
    outputs = "handle: resource"
    attrs = {
        "num_replicas": int_attr(1, minimum=1),
        "num_required": int_attr(0, minimum=0),
        "elects_first": bool_attr(False),
        "timeout_s": float_attr(1800.0),
        "container": string_attr(""),
        "shared_name": string_attr(""),
    }
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or creates the task's rounds; the kernel returns them.

        Raises:
            InvalidArgumentError: More contributions are required than there are replicas.
        """
        attrs = node.attrs
        name = attrs["shared_name"] or node.name
        count = attrs["num_replicas"]
        required = attrs["num_required"] or count

        def make() -> gradient_rounds.GradientRounds[Gradients, Gradients]:
            rounds: Rounds[Gradients] = Rounds(count, required, attrs["elects_first"])
            return gradient_rounds.GradientRounds(name, rounds, attrs["timeout_s"])

        found = context.resources.get_or_create(
            attrs["container"], name, gradient_rounds.GradientRounds, make
        )
        return lambda: found


class _Meets(_RoundsOp):
    takes_step = True
    attrs = {
        "replica": _REPLICA,
        "Tweight": _WEIGHT,
        "dense_types": list_attr("type", []),
        "index_types": list_attr("type", []),
        "value_types": list_attr("type", []),
    }
    first_gradient: ClassVar[int]
    first_mean: ClassVar[int]

    def infer(self, node: Inference) -> list[Shape]:
        """The shapes of the dense gradients; the number of rows of the others is unknown.

        Raises:
            InvalidArgumentError: The weight is not a scalar, or indices and values do not fit.
        """
        for index in range(1, self.first_gradient):
            node.with_rank(index, 0, self.signature.inputs[index].name)
        dense, indices, values = self._parts(node.attrs, node.shapes[self.first_gradient :])
        for position, rows in zip(indices, values, strict=True):
            if rows is not None and not shapes.is_compatible(rows[:1], position):
                raise InvalidArgumentError(
                    message=f"Values of shape {shapes.text(rows)} do not have one row per index in "
                    f"indices of shape {shapes.text(position)}"
                )
        many = [None if rows is None else (None, *rows[1:]) for rows in values]
        found: list[Shape] = [shapes.SCALAR] * self.first_mean
        return [*found, *dense, *[(None,) for _ in indices], *many]

    def _parts(self, attrs: Any, given: Sequence[Any]) -> tuple[Any, Any, Any]:
        dense, sparse = len(attrs["dense_types"]), len(attrs["index_types"])
        return given[:dense], given[dense : dense + sparse], given[dense + sparse :]

    def _gradients(self, attrs: Any, given: Sequence[Array]) -> Gradients:
        dense, indices, values = self._parts(attrs, given)
        return Gradients(tuple(dense), tuple(zip(indices, values, strict=True)))


def _flat(gradients: Gradients) -> tuple[Array, ...]:
    return (
        *gradients.dense,
        *(indices for indices, _ in gradients.sparse),
        *(values for _, values in gradients.sparse),
    )


@register
class GradientRoundsMeet(_Meets):
    """Contributes gradients, and waits until the step's update is applied or up to this replica.

    `is_mine` is true if this replica has to apply the update, with the returned means, and then run
    `GradientRoundsRelease`. For the others the update has been applied, and the means are
    undefined. A replica that is not `ready` contributes nothing and does not wait. If all weights
    are 0, there is no update.
    """

    is_ours = True
    inputs = (
        "handle: resource, ready: bool, step: int64, weight: Tweight, "
        "dense: dense_types, indices: index_types, values: value_types"
    )
    outputs = (
        "is_mine: bool, dense_means: dense_types, mean_indices: index_types, "
        "mean_values: value_types"
    )
    attrs = _Meets.attrs
    first_gradient = 4
    first_mean = 1

    def row_gradients(self, node: NodeView) -> list[tuple[int, int]]:
        """The sparse gradients."""
        ids = self.first_gradient + len(node.attrs["dense_types"])
        count = len(node.attrs["index_types"])
        return [(place + count, place) for place in range(ids, ids + count)]

    def met_gradients(self, node: NodeView) -> list[int]:
        """The dense gradients, then the rows of the others."""
        dense = range(len(node.attrs["dense_types"]))
        rows = [values for values, _ in self.row_gradients(node)]
        return [*(self.first_gradient + place for place in dense), *rows]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.gradient_rounds.GradientRounds.meet`."""
        attrs = node.attrs
        replica = attrs["replica"]
        mine, others = np.array(True), np.array(False)

        def run(
            running: StepContext,
            handle: gradient_rounds.GradientRounds[Gradients, Gradients],
            ready: Array,
            step: Array,
            weight: Array,
            *given: Array,
        ) -> tuple[Array, ...]:
            gradients = self._gradients(attrs, given)
            means = None
            if ready:
                contribution = Contribution(replica, float(weight), gradients)
                made_for = None if step < 0 else int(step)
                means = handle.meet(contribution, _mean_of_some, running, made_for)
                if isinstance(means, NoGradients):
                    handle.release(replica)
                    means = None
            if means is None:
                return (others, *_flat(_unused(gradients)))
            return (mine, *_flat(means))

        return run


@register
class ReplicaMean(_Meets):
    """The weighted means of all replicas' contributions, for each replica.

    All count equally if all weights are 0.
    """

    is_ours = True
    inputs = (
        "handle: resource, weight: Tweight, dense: dense_types, indices: index_types, "
        "values: value_types"
    )
    outputs = "dense_means: dense_types, mean_indices: index_types, mean_values: value_types"
    attrs = _Meets.attrs
    first_gradient = 2
    first_mean = 0

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.gradient_rounds.GradientRounds.mean`."""
        attrs = node.attrs
        replica = attrs["replica"]

        def run(
            running: StepContext,
            handle: gradient_rounds.GradientRounds[Gradients, Gradients],
            weight: Array,
            *given: Array,
        ) -> tuple[Array, ...]:
            contribution = Contribution(replica, float(weight), self._gradients(attrs, given))
            # Each gets its own array, so that none can write to another's.
            means = _flat(handle.mean(contribution, _mean_of_any, running))
            return tuple([np.array(each) for each in means])

        return run


class _ByReplica(_RoundsOp):
    inputs = "handle: resource"
    attrs = {"replica": _REPLICA}


@register
class GradientRoundsRelease(_ByReplica):
    """Ends the round if this replica has to, so that all continue."""

    is_ours = True

    def compute(self, xp: Any, handle: Any, *, replica: int) -> None:
        """See `resources.gradient_rounds.GradientRounds.release`."""
        handle.release(replica)


@register
class GradientRoundsJoin(_ByReplica):
    """Lets a new or restarted replica contribute to the open round."""

    is_ours = True

    def compute(self, xp: Any, handle: Any, *, replica: int) -> None:
        """See `resources.gradient_rounds.GradientRounds.join`."""
        handle.join(replica)


@register
class GradientRoundsLeave(_ByReplica):
    """Removes a replica: no round waits for it any more."""

    is_ours = True

    def compute(self, xp: Any, handle: Any, *, replica: int) -> None:
        """See `resources.gradient_rounds.GradientRounds.leave`."""
        handle.leave(replica)


@register
class GradientRoundsStep(_ByReplica):
    """The number of the round that a replica works on."""

    is_ours = True
    outputs = "step: int64"
    infer = scalars

    def compute(self, xp: Any, handle: Any, *, replica: int) -> Array:
        """See `resources.gradient_rounds.GradientRounds.step_of`."""
        return np.asarray(handle.step_of(replica), np.int64)


def _mean_of_some(contributions: Sequence[Contribution[Gradients]]) -> Gradients:
    """`mean_of` for an update; raises an error if there are no contributions."""
    if not any(each.weight for each in contributions):
        return NoGradients((), ())
    return mean_of(contributions)


def mean_of(contributions: Sequence[Contribution[Gradients]]) -> Gradients:
    """Returns the weighted means of the replicas' contributions.

    For sparse gradients, the concatenated rows of all replicas times their shares of the weights:
    summing rows of equal index gives the mean. No rows if all weights are 0.

    Raises:
        InvalidArgumentError: Dense gradients of one variable differ in shape.
    """
    weights = [each.weight for each in contributions]
    total = sum(weights)
    for arrays in zip(*[each.value.dense for each in contributions], strict=True):
        for contribution, array in zip(contributions, arrays, strict=True):
            if array.shape != arrays[0].shape:
                raise InvalidArgumentError(
                    message=f"Gradients of one variable differ: replica {contributions[0].replica} "
                    f"has shape {shapes.text(arrays[0].shape)}, replica {contribution.replica} "
                    f"{shapes.text(array.shape)}"
                )
    dense = weighted_means([each.value.dense for each in contributions], weights)
    sparse = []
    for rows in zip(*[each.value.sparse for each in contributions], strict=True):
        # A weight of 0 drops the rows, whatever they hold.
        kept = [
            (indices, scaled(values, weight / total)) if weight else (indices[:0], values[:0])
            for (indices, values), weight in zip(rows, weights, strict=True)
        ]
        indices, values = zip(*kept, strict=True)
        sparse.append((np.concatenate(indices), np.concatenate(values)))
    return Gradients(tuple(dense), tuple(sparse))


def _mean_of_any(contributions: Sequence[Contribution[Gradients]]) -> Gradients:
    if not any(each.weight for each in contributions):
        contributions = [Contribution(each.replica, 1.0, each.value) for each in contributions]
    return mean_of(contributions)


def _unused(gradients: Gradients) -> Gradients:
    """The results for a replica that applies no update: uninitialised arrays of the right kind."""
    return Gradients(
        tuple([np.empty(each.shape, each.dtype) for each in gradients.dense]),
        tuple(
            [
                (np.empty(0, indices.dtype), np.empty((0, *values.shape[1:]), values.dtype))
                for indices, values in gradients.sparse
            ]
        ),
    )
