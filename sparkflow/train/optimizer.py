"""`Optimizer`: what all optimizers share: gradients, slots, the train op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sparkflow.backward import gradients
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.indexed_slices import IndexedSlices
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops import arrays, state
from sparkflow.ops.control import group, tuple_of
from sparkflow.train import replication
from sparkflow.train.slots import Slots
from sparkflow.variables.initialization import trainable_variables
from sparkflow.variables.variable import Variable

GradientAndVariable = tuple[Tensor | IndexedSlices | None, Variable]


class Optimizer:
    """Base of the optimizers: subclasses give `_apply_dense` and `_apply_sparse`.

    Args:
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op, and of the slots unless the subclass names them.
    """

    GATE_NONE: Final = 0
    GATE_OP: Final = 1
    GATE_GRAPH: Final = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        self._slots = Slots()

    def get_name(self) -> str:
        """The name given to the optimizer."""
        return self._name

    # ------------------------------------------------------------------ for users

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """The operation of one training step: gradients of `loss`, then their application.

        Args:
            loss: A tensor; its elements are summed.
            global_step: A variable to count the step in, None for none.
            var_list: The variables to train; the trainable ones when None.
            gate_gradients: As for
                `compute_gradients`.
            aggregation_method: See `gate_gradients`.
            colocate_gradients_with_ops: See `gate_gradients`.
            grad_loss: See `gate_gradients`.
            name: Name of the operation.

        Raises:
            ValueError: `loss` depends on none of the variables.
        """
        pairs = self.compute_gradients(
            loss,
            var_list,
            gate_gradients,
            aggregation_method,
            colocate_gradients_with_ops,
            grad_loss,
        )
        if all(grad is None for grad, _ in pairs):
            names = ", ".join(str(variable) for _, variable in pairs)
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not "
                f"support gradients, between variables [{names}] and loss {loss}."
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[GradientAndVariable]:
        """The gradients of `loss`, each with its variable; None where it does not depend on it.

        Args:
            loss: A tensor; its elements are summed.
            var_list: The variables; the trainable ones when None.
            gate_gradients: `GATE_OP` makes the gradients of one operation available at once,
                `GATE_GRAPH` all of them, `GATE_NONE` none.
            aggregation_method: Accepted; gradients over several paths are always added by AddN.
            colocate_gradients_with_ops: Put each gradient where its forward operation is.
            grad_loss: What to multiply by; ones when None.

        Raises:
            ValueError: There are no variables.
            TypeError: Something in `var_list` is not a variable; `loss` is not floating point.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, "
                f"Optimizer.GATE_GRAPH. Not {gate_gradients}"
            )
        if callable(loss) and not isinstance(loss, Symbolic):
            raise TypeError("`loss` is a tensor; a function needs eager execution")
        graph = graph_of((loss,))
        with graph.as_default():
            variables = self._variables(var_list)
            grads = gradients(
                loss,
                variables,
                grad_ys=grad_loss,
                gate_gradients=gate_gradients == self.GATE_OP,
                colocate_gradients_with_ops=colocate_gradients_with_ops,
            )
            if gate_gradients == self.GATE_GRAPH:
                grads = tuple_of(grads)
        return list(zip(grads, variables, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """The operation that changes the variables by their gradients.

        Args:
            grads_and_vars: As `compute_gradients` gives them.
            global_step: A variable to count the step in, None for none.
            name: Name of the operation.

        Raises:
            ValueError: There are no variables, or none has a gradient.
            TypeError: A gradient is neither a tensor nor `IndexedSlices`.
        """
        pairs = [(_gradient(grad), variable) for grad, variable in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        if all(grad is None for grad, _ in pairs):
            names = ", ".join(variable.name for _, variable in pairs)
            raise ValueError(f"No gradients provided for any variable: [{names}].")
        strategy = replication.current()
        if strategy is not None:
            return strategy.apply_gradients(self, pairs, global_step, name)
        return self.apply_dense_and_sparse(pairs, global_step, name)

    def apply_dense_and_sparse(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """`apply_gradients` without asking a replication strategy."""
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        variables = [variable for _, variable in pairs]
        graph = graph_of(variables)
        with graph.as_default():
            with graph.init_scope():
                self._create_slots(variables)
            with graph.name_scope(name or self._name) as scope:
                self._prepare()
                updates = [self._update(grad, variable) for grad, variable in pairs]
                finish = scope if global_step is None else "update"
                finished = self._finish(updates, finish)
                if global_step is None:
                    train_op = finished
                else:
                    with graph.control_dependencies([finished]), graph.colocate_with(global_step):
                        one = graph.convert(1, global_step.dtype.base, "value")
                        train_op = state.assign_add(global_step, one, name=scope).op
        collected = graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if train_op not in collected:
            collected.append(train_op)
        return train_op

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """The slot variable of `var`, None when there is none."""
        return self._slots.get(var, name)

    def get_slot_names(self) -> list[str]:
        """The names of the slots in use, sorted."""
        return self._slots.names()

    def variables(self) -> list[Variable]:
        """Every variable the optimizer made in the default graph, sorted by name."""
        return sorted([*self._slots.all(), *self._own_variables()], key=lambda each: each.name)

    # ------------------------------------------------------------------ for subclasses

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        """Makes the slots of the variables, outside every control dependency."""

    def _prepare(self) -> None:
        """Makes the tensors of the hyperparameters."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        """The update of `var` by a dense gradient."""
        raise NotImplementedError(type(self).__name__)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        """The update of rows of `var`, each row at most once."""
        raise NotImplementedError(type(self).__name__)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Operation:
        """The update of rows that may be in several times: they are added up first."""
        unique, positions = arrays.unique(grad.indices)
        count = arrays.shape(unique)[0]
        summed = arrays.unsorted_segment_sum(grad.values, positions, count)
        return self._apply_sparse(IndexedSlices(summed, unique, grad.dense_shape), var)

    def _finish(self, updates: Sequence[Operation], name: str) -> Operation:
        """What happens after all updates; the name is that of the resulting operation."""
        return group(*updates, name=name)

    def _own_variables(self) -> list[Variable]:
        """Variables that are not slots, such as Adam's powers."""
        return []

    def _hyperparameter(self, value: Any, name: str) -> Tensor:
        """A number, tensor, or function giving one, as a tensor."""
        if callable(value) and not isinstance(value, Symbolic):
            value = value()
        return graph_of((value,)).convert(value, None, name)

    # ------------------------------------------------------------------ inside

    def _update(self, grad: Tensor | IndexedSlices, variable: Variable) -> Operation:
        graph = variable.graph
        with graph.name_scope(f"update_{variable.op.name}"), graph.colocate_with(variable):
            if isinstance(grad, IndexedSlices):
                update = self._apply_sparse_duplicate_indices(grad, variable)
            else:
                update = self._apply_dense(grad, variable)
            if variable.constraint is None:
                return update
            with graph.control_dependencies([update]):
                return state.assign(variable, variable.constraint(variable.read_value())).op

    def _variables(self, var_list: Any) -> list[Variable]:
        if var_list is None:
            variables = trainable_variables()
        else:
            variables = list(var_list) if isinstance(var_list, list | tuple) else [var_list]
        if not variables:
            raise ValueError("No variables to optimize.")
        for each in variables:
            if not isinstance(each, Variable):
                raise TypeError(f"Argument is not a tf.Variable: {each}")
        return variables


def _gradient(grad: Any) -> Any:
    if grad is None or isinstance(grad, Tensor | IndexedSlices):
        return grad
    if isinstance(grad, Symbolic):
        return grad._to_tensor()
    raise TypeError(f"Gradient must be a Tensor, IndexedSlices, or None: {grad}")
