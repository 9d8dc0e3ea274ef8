"""Optimizers that take weights towards 0 apart from the gradient (Loshchilov, Hutter 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.elementwise import elementwise
from sparkflow.train.optimizers.adam import AdamOptimizer
from sparkflow.train.optimizers.momentum import MomentumOptimizer
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.train.optimizers.slots import arithmetic_dtype, rows_of
from sparkflow.variables.variable import Variable


class DecoupledWeightDecayExtension(Optimizer):
    """`w -= weight_decay * w` before each update of another optimizer; mixed in before its class.

    For updates of rows only those rows decay.

    Args:
        weight_decay: A number, scalar tensor, or function giving one. It is not multiplied by the
            learning rate.
        **kwargs: For the other optimizer.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._weight_decay = weight_decay
        self._decay_var_list: set[Variable] | None = None
        super().__init__(**kwargs)

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
        decay_var_list: Sequence[Variable] | None = None,
    ) -> Operation:
        """The operation of one training step, see `Optimizer.minimize`.

        Args:
            loss: As there, as all the others.
            global_step: As there.
            var_list: As there.
            gate_gradients: As there.
            aggregation_method: As there.
            colocate_gradients_with_ops: As there.
            name: As there.
            grad_loss: As there.
            decay_var_list: The variables that decay; all that are updated when None.
        """
        self._decay_var_list = set(decay_var_list) if decay_var_list else None
        return super().minimize(
            loss,
            global_step,
            var_list,
            gate_gradients,
            aggregation_method,
            colocate_gradients_with_ops,
            name,
            grad_loss,
        )

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        decay_var_list: Sequence[Variable] | None = None,
    ) -> Operation:
        """The operation that changes the variables, see `Optimizer.apply_gradients`.

        Args:
            grads_and_vars: As there.
            global_step: As there.
            name: As there.
            decay_var_list: The variables that decay; all that are updated when None.
        """
        if decay_var_list:
            self._decay_var_list = set(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _prepare(self) -> None:
        self._weight_decay_tensor = self._hyperparameter(self._weight_decay, "weight_decay")
        super()._prepare()

    def _decays(self, var: Variable) -> bool:
        return self._decay_var_list is None or var in self._decay_var_list

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        if not self._decays(var):
            return super()._apply_dense(grad, var)
        graph = get_default_graph()  # a branch, where updates are made in one
        dtype = arithmetic_dtype(var)
        rate = elementwise.cast(self._weight_decay_tensor, dtype)
        # The gradient is computed from the weights as they were.
        with graph.control_dependencies([grad]):
            decayed = self._subtracted(var, rate * elementwise.cast(var.read_value(), dtype))
        with graph.control_dependencies([decayed]):
            return super()._apply_dense(grad, var)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        if not self._decays(var):
            return super()._apply_sparse(grad, var)
        graph = get_default_graph()  # a branch, where updates are made in one
        dtype = arithmetic_dtype(var)
        rate = elementwise.cast(self._weight_decay_tensor, dtype)
        with graph.control_dependencies([grad.values]):
            rows = elementwise.cast(rows_of(var, grad.indices), dtype)
            decayed = self._rows_subtracted(var, grad.indices, rate * rows)
        with graph.control_dependencies([decayed]):
            return super()._apply_sparse(grad, var)


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> type[Optimizer]:
    """A class of optimizers like `base_optimizer` whose first argument is `weight_decay`.

    Args:
        base_optimizer: The class of an optimizer.
    """

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore[valid-type, misc]  # the base is an argument
        """`base_optimizer` with decoupled weight decay."""

        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            self._weight_decay = weight_decay
            self._decay_var_list = None
            base_optimizer.__init__(self, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with decoupled weight decay.

    Args:
        weight_decay: The part of the weights that is taken away in each step.
        learning_rate: As for `AdamOptimizer`, as all the others.
        beta1: As there.
        beta2: As there.
        epsilon: As there.
        use_locking: As there.
        name: Name of the train op and of the slots.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum with decoupled weight decay.

    Args:
        weight_decay: The part of the weights that is taken away in each step.
        learning_rate: As for `MomentumOptimizer`, as all the others.
        momentum: As there.
        use_locking: As there.
        name: Name of the train op and of the slots.
        use_nesterov: As there.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            momentum=momentum,
            use_locking=use_locking,
            name=name,
            use_nesterov=use_nesterov,
        )
