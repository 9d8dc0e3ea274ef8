"""`SyncReplicasOptimizer`: one update per step from the gradients of several replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkflow import logging
from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import group, identity, no_op
from sparkflow.ops.shape import constants
from sparkflow.ops.state import state
from sparkflow.ops.state.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from sparkflow.queues.queues import FIFOQueue
from sparkflow.train.optimizers.optimizer import Optimizer, WrappingOptimizer
from sparkflow.train.queue_runner import QueueRunner
from sparkflow.train.replication.replica_variable import replica_variable
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow.train.sessions.session_manager import model_is_ready
from sparkflow.variables.initialization import global_variables, report_uninitialized_variables
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import int32
from sparkflow_runtime.errors import CancelledError, OutOfRangeError


@export("train.SyncReplicasOptimizer")
class SyncReplicasOptimizer(WrappingOptimizer):
    """Aggregates gradients of replicas before another optimizer applies them.

    Each replica adds its gradients to accumulators, which are on the variables' devices, and waits
    for a token. The chief's queue runner takes the means of `replicas_to_aggregate` gradients,
    applies them, and puts a token with the new step for every replica into a queue. Gradients
    computed for an earlier step are dropped. If there are more replicas than are aggregated, the
    others are backups.

    Run `chief_init_op` (the chief) or `local_step_init_op` (others) as the local init op, and the
    chief's queue runner and init tokens; `make_session_run_hook` does all of this.

    Args:
        opt: The optimizer that applies the means.
        replicas_to_aggregate: The number of gradients per step.
        total_num_replicas: The number of replicas; None for `replicas_to_aggregate`.
        variable_averages: An `ExponentialMovingAverage` to maintain.
        variables_to_average: The variables that it averages.
        use_locking: Whether to lock variables during updates.
        name: Name of the scope.

    Attributes:
        chief_init_op: Sets the chief's local step and those of the accumulators.
        local_step_init_op: Sets a worker's local step.
        ready_for_local_init_op: Returns the names of uninitialized variables.
    """

    chief_init_op: Operation
    local_step_init_op: Any
    ready_for_local_init_op: Tensor

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Iterable[Any] | None = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(opt, use_locking, name)
        if total_num_replicas is None:
            total_num_replicas = replicas_to_aggregate
        logging.info(
            "SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s",
            replicas_to_aggregate,
            total_num_replicas,
        )
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = total_num_replicas
        self._tokens_per_step = max(total_num_replicas, replicas_to_aggregate)
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._gradients_applied = False
        self._global_step: Any = None
        self._sync_token_queue: Any = None
        self._chief_queue_runner: Any = None

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Returns the operation for each step of a replica: adds gradients, waits for a token.

        Args:
            grads_and_vars: The result of `compute_gradients`.
            global_step: The variable that counts steps.
            name: Not used, as in TensorFlow.

        Raises:
            ValueError: There are no variables or no step, or a gradient has an unsupported type.
        """
        pairs = list(grads_and_vars or ())
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        graph = get_default_graph()
        self._make_local_step(global_step)
        with graph.name_scope(self._name):
            pushes, met = self._meet(pairs)
            with graph.device(global_step.device), graph.name_scope(None):
                # Nodes that run concurrently with steps must not wait for inputs of a step.
                with graph.init_scope():
                    update = self._opt.apply_gradients(met.means, global_step)
                    self._sync_token_queue = FIFOQueue(
                        -1,
                        global_step.dtype.base,
                        shapes=(),
                        name="sync_token_q",
                        shared_name="sync_token_q",
                    )
                with graph.control_dependencies(pushes):
                    token = self._sync_token_queue.dequeue()
                train_op = state.assign(self._local_step, token)
            with graph.init_scope():
                self._make_runner(update, met.accumulators)
        self._gradients_applied = True
        return train_op

    def _make_runner(self, update: Operation, accumulators: Sequence[tuple[Any, str]]) -> None:
        """Creates the operations that the chief runs first and concurrently with its steps."""
        graph, global_step = get_default_graph(), self._global_step
        with graph.device(global_step.device), graph.name_scope(None):
            with graph.control_dependencies([update]):
                sync_op = self._enqueue_tokens(self._tokens_per_step)
            if self._variable_averages is not None:
                with graph.control_dependencies([sync_op]):
                    sync_op = self._variable_averages.apply(self._variables_to_average)
            self._chief_queue_runner = self._runner(sync_op, accumulators)
        init_ops = [self.local_step_init_op]
        for accumulator, device in accumulators:
            with graph.device(device):
                init_ops.append(accumulator.set_global_step(global_step, name="SetGlobalStep"))
        self.chief_init_op = group(*init_ops)

    def _make_local_step(self, global_step: Any) -> None:
        dtype = global_step.dtype.base
        self._local_step = replica_variable(lambda: 0, "sync_rep_local_step", dtype=dtype)
        with get_default_graph().init_scope():
            self.local_step_init_op = state.assign(self._local_step, global_step)
            self.ready_for_local_init_op = report_uninitialized_variables(global_variables())

    def _meet(self, pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Operation], _Met]:
        """Creates the operations that push gradients and take their means."""
        graph = get_default_graph()
        pushes: list[Operation] = []
        met = _Met([(None, variable) for _, variable in pairs])
        for grad, variable in pairs:
            if grad is None:
                continue
            if not isinstance(grad, Tensor | IndexedSlices):
                raise ValueError(f"Unknown grad type! {grad!r}")
            sparse = isinstance(grad, IndexedSlices)
            kind: Any = SparseConditionalAccumulator if sparse else ConditionalAccumulator
            with graph.device(variable.device):
                with graph.init_scope():
                    name = f"{variable.name}/grad_accum"
                    accumulator = kind(grad.dtype, variable.shape, name)
                push = accumulator.apply_indexed_slices_grad if sparse else accumulator.apply_grad
                pushes.append(push(grad, local_step=self._local_step))
            met.accumulators.append((accumulator, variable.device))
        with graph.init_scope():
            self._take(pairs, met)
        return pushes, met

    def _take(self, pairs: Sequence[tuple[Any, Any]], met: _Met) -> None:
        """Takes the means of a device one after another and passes them on together.

        As all of them are needed, only one thread has to wait, and updates can be one call. The
        gradient pushed last is taken first, when all others have arrived.
        """
        graph = get_default_graph()
        last: dict[str, list[Operation]] = {}
        places = [place for place, (grad, _) in enumerate(pairs) if grad is not None]
        taken: dict[int, Any] = {}
        for place, (accumulator, device) in zip(
            reversed(places), reversed(met.accumulators), strict=True
        ):
            sparse = isinstance(accumulator, SparseConditionalAccumulator)
            take = accumulator.take_indexed_slices_grad if sparse else accumulator.take_grad
            with graph.device(device), graph.control_dependencies(last.get(device, ())):
                taken[place] = take(self._replicas_to_aggregate)
            last[device] = [taken[place].op]
        for place in places:
            variable = pairs[place][1]
            with graph.device(variable.device), graph.control_dependencies(last[variable.device]):
                met.means[place] = _held(taken[place]), variable

    def _enqueue_tokens(self, count: int) -> Operation:
        value = self._global_step
        # Read under the current control dependencies: after the update.
        step = value.read_value() if isinstance(value, Variable) else value
        tokens = constants.fill([count], step)
        enqueued: Operation = self._sync_token_queue.enqueue_many((tokens,))
        return enqueued

    def _runner(self, sync_op: Any, accumulators: Sequence[tuple[Any, str]]) -> QueueRunner:
        # A queue runner closes its queue at the end, but the token queue must stay open for others.
        queue = FIFOQueue(1, int32, shapes=(), name="dummy_queue", shared_name="dummy_queue")
        cancel = group(
            queue.close(cancel_pending_enqueues=True),
            *[accumulator.cancel_takes() for accumulator, _ in accumulators],
        )
        return QueueRunner(
            queue,
            [sync_op],
            cancel_op=cancel,
            queue_closed_exception_types=(OutOfRangeError, CancelledError),
        )

    def get_chief_queue_runner(self) -> QueueRunner:
        """Returns the queue runner that the chief must run during its steps.

        Raises:
            ValueError: `apply_gradients` was not called.
        """
        if not self._gradients_applied:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner  # type: ignore[no-any-return]  # made above

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """Returns an operation for the chief to run once, so the first step can use fewer replicas.

        Args:
            num_tokens: The number of tokens; -1 for `replicas_to_aggregate`.

        Raises:
            ValueError: `apply_gradients` was not called, or there are too few tokens.
        """
        if not self._gradients_applied:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(
                f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} "
                "(needed)"
            )
        if num_tokens <= 0:
            return no_op(name="no_init_tokens")
        graph = get_default_graph()
        with graph.device(self._global_step.device), graph.name_scope(None):
            return self._enqueue_tokens(num_tokens)

    @property
    def init_tokens_op(self) -> Operation:
        """A new operation as returned by `get_init_tokens_op()`."""
        return self.get_init_tokens_op()

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """Returns a hook that runs the initializers and the chief's queue runner.

        Args:
            is_chief: Whether this replica is the chief.
            num_tokens: See `get_init_tokens_op`.
        """
        return _SyncReplicasOptimizerHook(self, is_chief, num_tokens)

    get_session_run_hook = make_session_run_hook


@dataclass(slots=True)
class _Met:
    """How pushed gradients are combined.

    Attributes:
        means: The means that the chief takes, with their variables.
        accumulators: The accumulators of gradients, with their devices.
    """

    means: list[tuple[Any, Any]] = field(default_factory=list)
    accumulators: list[tuple[Any, str]] = field(default_factory=list)


def _held(mean: Any) -> Any:
    """Returns the same value under the current control dependencies."""
    if isinstance(mean, IndexedSlices):
        return IndexedSlices(identity(mean.values), mean.indices, mean.dense_shape)
    return identity(mean)


class _SyncReplicasOptimizerHook(SessionRunHook):
    """Initializes a replica's step; on the chief also accumulators, tokens and the queue runner."""

    def __init__(
        self, sync_optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int
    ) -> None:
        self._sync_optimizer = sync_optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens

    def begin(self) -> None:
        """Finds the operations to run.

        Raises:
            ValueError: `apply_gradients` was not called.
        """
        optimizer = self._sync_optimizer
        if not optimizer._gradients_applied:
            raise ValueError(
                "SyncReplicasOptimizer.apply_gradient should be called before using the hook."
            )
        self._ready_op = optimizer.ready_for_local_init_op
        self._local_init_op = optimizer.local_step_init_op
        self._queue_runner: QueueRunner | None = None
        self._init_tokens_op: Any = None
        if self._is_chief:
            self._local_init_op = optimizer.chief_init_op
            self._queue_runner = optimizer.get_chief_queue_runner()
            self._init_tokens_op = optimizer.get_init_tokens_op(self._num_tokens)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the operations.

        Raises:
            RuntimeError: The model is not initialized.
        """
        ready, message = model_is_ready(
            self._ready_op, session, "Model is not ready for SyncReplicasOptimizer local init."
        )
        if not ready:
            raise RuntimeError(
                "Init operations did not make model ready for SyncReplicasOptimizer local_init. "
                f"Init op: {self._local_init_op.name}, error: {message}"
            )
        session.run(self._local_init_op)
        if self._init_tokens_op is not None:
            session.run(self._init_tokens_op)
        if self._queue_runner is not None:
            self._queue_runner.create_threads(session, coord=coord, daemon=True, start=True)
