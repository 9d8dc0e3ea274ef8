"""Local SGD: replicas train copies of the variables and average them every few steps.

Between two averages nothing crosses to the parameter servers. They hold the shared variables, the
last average, which is what is saved and what a new replica begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import group
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.shape import constants
from sparkflow.ops.state import state
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.train.optimizers.strategy import TIMEOUT_S, Replication, plain_update, scope
from sparkflow.train.replication.gradient_accumulation import rows_where
from sparkflow.train.replication.replica_variable import replica_variable
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunHook
from sparkflow.variables.variable import Variable
from sparkflow.variables.variable_scope import get_variable_scope, variable_scope
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError

SCOPE: Final = "local_sgd"


@export("train.LocalSgd")
class LocalSgd(Replication):
    """Every replica trains its own copy of the variables; every `period` steps all are averaged.

    The average is weighted by the rows each replica has seen since the last one (Stich, "Local SGD
    Converges Fast and Communicates Little", 2018). With a period of 1 and plain gradient descent
    this is synchronous training.

    Variables made with `tf.get_variable` inside `scope()` are shared ones on the parameter servers;
    what `tf.get_variable` gives is the replica's copy. In a `MonitoredTrainingSession`,
    `make_session_run_hook` averages; elsewhere run `average_op` after every `period` steps, and
    once more when the data have ended.

    Args:
        period: Steps from one average to the next.
        graph: The replica's graph; the default graph when None.
        weight: [] float32, the number of rows of the replica's batch; all count alike when None.
        replica: The replica's number.
        num_replicas: How many there are.
        average_slots: Whether the optimizer's slots are averaged, too; else each replica keeps
            its own.
        timeout_s: How long a replica waits for the others to average.

    Attributes:
        period: As given.
        average_op: Averages all copies; blocks until every replica runs it.
        steps: [] int64, the steps this replica has made.

    Raises:
        InvalidArgumentError: There is no such replica, or the period is below 1.
    """

    average_op: Operation
    steps: Tensor

    def __init__(
        self,
        period: int,
        graph: Graph | None = None,
        weight: Tensor | None = None,
        *,
        replica: int = 0,
        num_replicas: int = 1,
        average_slots: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(graph, replica=replica, num_replicas=num_replicas)
        if period < 1:
            raise InvalidArgumentError(
                message=f"Copies are to be averaged every {period} steps; it must be at least 1"
            )
        self.period = period
        self._weight = weight
        self._average_slots = average_slots
        self._timeout_s = timeout_s
        self._shared: dict[Variable, Variable] = {}

    @contextmanager
    def scope(self) -> Iterator[Replication]:
        """Makes optimizers follow this strategy and `tf.get_variable` return copies. Per thread."""
        with scope(self), variable_scope(get_variable_scope(), custom_getter=self._get):
            yield self

    def apply_gradients(
        self,
        optimizer: Optimizer,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        condition: Any = None,
    ) -> Operation:
        """The optimizer's update of the replica's copies.

        Args:
            optimizer: Makes the update.
            grads_and_vars: Pairs of gradient and copy.
            global_step: A shared variable that `average_op` sets to the steps a replica made.
            name: Of the update.
            condition: As in `Replication.apply_gradients`; a step without gradients counts, too.

        Raises:
            InvalidArgumentError: A variable is not a copy: it was not made by `tf.get_variable`
                inside `scope()`.
        """
        for gradient, variable in grads_and_vars:
            if gradient is not None and variable not in self._shared:
                raise InvalidArgumentError(
                    message=f"Local SGD cannot train {variable.op.name!r}: it has no copies. Make "
                    "it with tf.get_variable inside the scope() of the strategy"
                )
        made_before = {
            each
            for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
            for each in self.graph.get_collection(key)
        }
        update = plain_update(optimizer, grads_and_vars, None, name, condition)
        slots = self._make_local(made_before)
        with self.graph.name_scope(SCOPE) as name_scope:
            weight = self._weight
            if weight is None:
                weight = self.graph.convert(1.0, dtypes.float32, "weight")
            start = global_step

            def first_step() -> Any:
                value = 0 if start is None else start.initialized_value()
                return elementwise.cast(value, dtypes.int64)

            dtype = weight.dtype.base
            rows = replica_variable(lambda: constants.zeros([], dtype), "rows")
            steps = replica_variable(first_step, "steps")
            counted = [state.assign_add(rows, rows_where(condition, weight))]
            counted.append(state.assign_add(steps, constants.constant(1, dtypes.int64)))
            with self.beside_the_step():
                self.steps = steps.read_value()
                self._build_average(slots, rows, steps, global_step, name_scope)
            return group(update, *counted, name="local_step")

    def make_session_run_hook(self) -> SessionRunHook:
        """The hook that a replica's `MonitoredTrainingSession` needs: it averages."""
        return _Averages(self)

    def _get(self, getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """The replica's copy of the variable `getter` makes; a `custom_getter`."""
        if GraphKeys.LOCAL_VARIABLES in (kwargs.get("collections") or ()):
            return getter(name, *args, **kwargs)
        trainable = kwargs.get("trainable") is not False
        regularizer = kwargs.pop("regularizer", None)
        given = {**kwargs, "trainable": False, "partitioner": None, "regularizer": None}
        shared = getter(name, *args, **given)
        for copy, original in self._shared.items():
            if original is shared:
                return copy
        copy = replica_variable(shared.initialized_value, f"{name}/copy", trainable=trainable)
        self._shared[copy] = shared
        if regularizer is not None:
            self.graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, regularizer(copy))
        return copy

    def _make_local(self, made_before: set[Any]) -> list[Variable]:
        """Makes the optimizer's new variables local ones: each replica has its own."""
        shared = self.graph.get_collection_ref(GraphKeys.GLOBAL_VARIABLES)
        local = self.graph.get_collection_ref(GraphKeys.LOCAL_VARIABLES)
        slots = [each for each in local if each not in made_before]
        made = [each for each in shared if each not in made_before]
        shared[:] = [each for each in shared if each in made_before]
        local.extend(made)
        return [*slots, *made]

    def _build_average(
        self,
        slots: Sequence[Variable],
        rows: Variable,
        steps: Variable,
        global_step: Any,
        name_scope: str,
    ) -> None:
        graph = self.graph
        groups: dict[str, list[Variable]] = {}
        for copy, shared in self._shared.items():
            groups.setdefault(shared.device, []).append(copy)
        if self._average_slots:
            next(iter(groups.values())).extend(slots)
        weight = rows.read_value()
        assigned: list[Any] = []
        for index, (device, copies) in enumerate(groups.items()):
            attrs = {
                "num_replicas": self.num_replicas,
                "timeout_s": self._timeout_s,
                "shared_name": f"{name_scope}rounds_{index}",
            }
            values = [copy.read_value() for copy in copies]
            mine = {"replica": self.replica}
            with graph.device(device):
                handle = graph.apply("GradientRounds", (), attrs, "rounds")
                mean = graph.add_node(
                    "ReplicaMean",
                    (handle, weight, values, [], []),
                    {
                        **mine,
                        "Tweight": weight.dtype.base,
                        "dense_types": [value.dtype.base for value in values],
                        "index_types": [],
                        "value_types": [],
                    },
                    "mean",
                )
                self.join_ops.append(graph.add_node("GradientRoundsJoin", (handle,), mine, "join"))
                self.leave_ops.append(
                    graph.add_node("GradientRoundsLeave", (handle,), mine, "leave")
                )
            for copy, value in zip(copies, mean.outputs, strict=True):
                assigned.append(state.assign(copy, value))
                if copy in self._shared:
                    assigned.append(state.assign(self._shared[copy], value))
        with graph.control_dependencies(assigned):
            finished = [state.assign(rows, constants.zeros([], rows.dtype.base))]
            if global_step is not None:
                made = elementwise.cast(steps.read_value(), global_step.dtype.base)
                latest = elementwise.maximum(global_step.read_value(), made)
                finished.append(state.assign(global_step, latest))
        self.average_op = group(*finished, name="average")


class _Averages(SessionRunHook):
    """Averages after every `period` steps, and when training is over."""

    def __init__(self, strategy: LocalSgd) -> None:
        self._strategy = strategy
        self._averaged = 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Makes the replica take part from now on."""
        session.run(self._strategy.join_ops)
        self._averaged = int(session.run(self._strategy.steps))

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Asks for the steps made."""
        return SessionRunArgs(self._strategy.steps)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Averages when it is time."""
        # The steps may have been read before this run's own was counted.
        if int(run_values.results) + 1 - self._averaged < self._strategy.period:
            return
        steps = int(run_context.session.run(self._strategy.steps))
        if steps - self._averaged >= self._strategy.period:
            run_context.session.run(self._strategy.average_op)
            self._averaged = steps

    def end(self, session: Any) -> None:
        """Averages what the last steps brought, and has the others wait no more."""
        if int(session.run(self._strategy.steps)) > self._averaged:
            session.run(self._strategy.average_op)
        session.run(self._strategy.leave_ops)
