"""How several replicas of a graph train the same variables: what all ways have in common.

A strategy that is in scope while the graph is built is asked by `Optimizer.apply_gradients` instead
of the optimizer's own code, so that neither optimizers nor model functions change. The strategies
are `AsyncReplication` (here), `sync.SyncReplication`, `staleness.BoundedStaleness` and
`local_sgd.LocalSgd`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from sparkflow._api import export
from sparkflow.graph.default_stack import DefaultStack
from sparkflow.graph.scopes import get_default_graph
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef

if TYPE_CHECKING:
    from sparkflow.graph.graph import Graph
    from sparkflow.graph.operation import Operation
    from sparkflow.train.optimizers.optimizer import Optimizer

TIMEOUT_S: Final = 1800.0
"""How long a replica waits for others unless it is told otherwise."""


class Replication:
    """A way to combine the updates of several replicas. Subclasses define `apply_gradients`.

    Args:
        graph: The replica's graph; the default graph when None.
        replica: The replica's number, its task's index.
        num_replicas: How many there are.

    Attributes:
        graph: The graph updates are built in.
        replica, num_replicas: As given.
        is_waited_for: Whether other replicas wait for this one's updates.
        leave_ops: What is run for a replica that makes no more steps: its data ended, or it is
            gone. The others wait for it no more.

    Raises:
        InvalidArgumentError: There is no such replica.
    """

    is_waited_for = True

    def __init__(
        self, graph: Graph | None = None, *, replica: int = 0, num_replicas: int = 1
    ) -> None:
        if not 0 <= replica < num_replicas:
            raise InvalidArgumentError(
                message=f"Replica {replica} of {num_replicas} was asked for; replicas are numbered "
                "from 0"
            )
        self.graph = get_default_graph() if graph is None else graph
        self.replica = replica
        self.num_replicas = num_replicas
        self._join_ops: list[Operation] = []
        self.leave_ops: list[Operation] = []
        self.updates: list[Operation] = []  # what optimizers made with it

    @property
    def join_ops(self) -> list[Operation]:
        """Operations that a replica runs before its first step, once the whole graph is built."""
        return self._join_ops

    def scope(self) -> AbstractContextManager[Replication]:
        """Makes optimizers used inside a `with` block follow this strategy. Per thread."""
        return scope(self)

    @contextmanager
    def beside_the_step(self) -> Iterator[Graph]:
        """Where nodes are made that run between steps: joining, leaving, first values.

        They must not wait for what a step reads. An update is often built under
        `control_dependencies` of the batch: such a node would take a batch from the step.
        """
        with self.graph.as_default(), self.graph.init_scope():
            yield self.graph

    def compute_gradients(
        self, loss: Any, compute: Callable[[bool], list[tuple[Any, Any]]]
    ) -> list[tuple[Any, Any]]:
        """The gradients of a replica's loss, each with its variable.

        Args:
            loss: The tensor.
            compute: Computes them; if told so for stages, that is each where its forward operation
                is, and none waiting for another that it is not computed from.
        """
        return compute(False)

    def of_whole_batch(self, value: Any) -> Any:
        """What a tensor that the model's function made is for the whole of a replica's batch."""
        return value

    def apply_gradients(
        self,
        optimizer: Optimizer,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        condition: Any = None,
    ) -> Operation:
        """The operation a replica runs in every step.

        The optimizer's plain update is `optimizer.apply_dense_and_sparse`, with the same arguments.

        Args:
            optimizer: Makes the update itself.
            grads_and_vars: Pairs of gradient (a Tensor, IndexedSlices or None) and variable.
            global_step: A variable to count updates in, or None.
            name: Of the update.
            condition: Tensor, [] bool: whether this replica has gradients in this step; those of a
                `tf.cond` come so (see `branch_update`). It takes part without any where it has
                none, so that nobody waits for it. None where it always has.
        """
        raise NotImplementedError(type(self).__name__)

    def make_session_run_hook(self) -> SessionRunHook:
        """The hook that a replica's `MonitoredTrainingSession` needs, also the chief's."""
        return _TakesPart(self)

    def specialised(self, graph_def: GraphDef, replica: int, num_replicas: int) -> GraphDef:
        """The graph, built once, as one of `num_replicas` replicas runs it."""
        specialised = GraphDef()
        specialised.CopyFrom(graph_def)
        for node in nodes_of(specialised):
            attrs = registry.find(node.op).attrs
            if "replica" in attrs:  # an op that knows which replica it belongs to
                node.attr["replica"].i = replica
            elif "num_replicas" in attrs:  # one that knows how many there are
                node.attr["num_replicas"].i = num_replicas
        return specialised


class Wrapping(Replication):
    """A strategy around another one, which brings the updates to the variables.

    Args:
        inner: The other strategy.
    """

    def __init__(self, inner: Replication) -> None:
        super().__init__(inner.graph, replica=inner.replica, num_replicas=inner.num_replicas)
        self._inner = inner
        self.leave_ops = inner.leave_ops

    @property
    def join_ops(self) -> list[Operation]:
        """As the inner strategy has them."""
        return self._inner.join_ops

    def apply_gradients(
        self,
        optimizer: Optimizer,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        condition: Any = None,
    ) -> Operation:
        """The inner strategy's update."""
        return self._inner.apply_gradients(optimizer, grads_and_vars, global_step, name, condition)

    def specialised(self, graph_def: GraphDef, replica: int, num_replicas: int) -> GraphDef:
        """As the inner strategy has it."""
        return self._inner.specialised(graph_def, replica, num_replicas)


def nodes_of(graph_def: GraphDef) -> Iterator[NodeDef]:
    """All nodes of a graph, including those of its functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


@export("train.AsyncReplication")
class AsyncReplication(Replication):
    """Every replica updates the shared variables when it has gradients, and waits for nobody."""

    is_waited_for = False

    def apply_gradients(
        self,
        optimizer: Optimizer,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        condition: Any = None,
    ) -> Operation:
        """The optimizer's plain update, where there is one."""
        return plain_update(optimizer, grads_and_vars, global_step, name, condition)


def plain_update(
    optimizer: Optimizer,
    grads_and_vars: Sequence[tuple[Any, Any]],
    global_step: Any,
    name: str | None,
    condition: Any,
) -> Operation:
    """The optimizer's update of the variables, where `condition` holds if one is given."""
    if condition is None:
        return optimizer.apply_dense_and_sparse(grads_and_vars, global_step, name)
    return optimizer.apply_where(condition, grads_and_vars, global_step, name)


class _TakesPart(SessionRunHook):
    """Joins when a session begins, leaves when training is over."""

    def __init__(self, strategy: Replication) -> None:
        self._strategy = strategy

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Makes the replica take part from now on."""
        session.run(self._strategy.join_ops)

    def end(self, session: Any) -> None:
        """Makes the other replicas stop waiting for this one."""
        session.run(self._strategy.leave_ops)


_strategies: DefaultStack[Replication] = DefaultStack("replication strategy")


def scope(strategy: Replication) -> AbstractContextManager[Replication]:
    """Makes optimizers used inside a `with` block follow `strategy`. Per thread."""
    return _strategies.entered(strategy)


def current() -> Replication | None:
    """The strategy in scope, None when updates are applied plainly."""
    return _strategies.top()
