"""Moving averages of variables and tensors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import group
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.state import state
from sparkflow.train.optimizers.rounding import subtracted
from sparkflow.train.optimizers.slots import arithmetic_dtype, create_slot, filled_like
from sparkflow.variables.initialization import global_variables, trainable_variables
from sparkflow.variables.initializers import Zeros
from sparkflow.variables.variable import Variable
from sparkflow.variables.variable_scope import get_variable, variable_scope
from sparkflow_runtime.ops import registry


def assign_moving_average(
    variable: Variable, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Tensor:
    """`variable -= (1 - decay) * (variable - value)`.

    Args:
        variable: The average.
        value: What is averaged, of its shape and dtype.
        decay: How much of the average stays, a number or scalar tensor.
        zero_debias: Make up for an average that started from 0, as Adam does (Kingma and Ba 2015,
            section 3), with two more variables `biased` and `local_step`.
        name: Name of the update.

    Returns:
        The variable after the update.
    """
    graph = variable.graph
    with (
        graph.as_default(),
        graph.name_scope(name or "AssignMovingAvg") as scope,
        graph.colocate_with(variable),
    ):
        # A bfloat16 average would stay as it is: what is added is less than its last place.
        dtype = arithmetic_dtype(variable)
        rest = elementwise.cast(convert_to_tensor(1.0 - decay, name="decay"), dtype)
        tensor = elementwise.cast(convert_to_tensor(value, variable.dtype.base), dtype)
        if zero_debias:
            delta = _debiased_delta(variable, tensor, rest)
        else:
            delta = (elementwise.cast(variable, dtype) - tensor) * rest
        return subtracted(variable, delta, name=scope)


def _debiased_delta(variable: Variable, value: Tensor, rest: Tensor) -> Tensor:
    dtype = rest.dtype.base
    graph = variable.graph
    with variable_scope(variable.op.name), graph.colocate_with(variable):
        made: dict[str, Any] = {"dtype": dtype, "initializer": Zeros(), "trainable": False}
        biased = get_variable("biased", shape=variable.shape, **made)
        local_step = get_variable("local_step", shape=[], **made)
    updates = [
        state.assign_sub(biased, (biased - value) * rest),
        state.assign_add(local_step, convert_to_tensor(1, dtype)),
    ]
    with graph.control_dependencies(updates):
        weight = 1 - elementwise.pow(1.0 - rest, local_step.read_value())
        mean = biased.read_value() / weight
        delta: Tensor = elementwise.cast(variable, dtype) - mean
        return delta


@export("train.ExponentialMovingAverage")
class ExponentialMovingAverage:
    """Keeps averages of variables and tensors: `average = decay * average + (1 - decay) * value`.

    Args:
        decay: Near 1, a number or scalar tensor.
        num_updates: A count by which the decay grows to its value:
            `min(decay, (1 + num_updates) / (10 + num_updates))`.
        zero_debias: Make up for averages of tensors starting from 0.
        name: Of the update, and of the averages below the names of what they average.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Variable] = {}

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Operation:
        """The operation that updates the averages of these variables and tensors.

        Averages of variables start from their initial values, those of tensors from 0.

        Args:
            var_list: What is averaged; the trainable variables when None.

        Raises:
            TypeError: Something is not floating point.
        """
        items = list(trainable_variables() if var_list is None else var_list)
        debiased = set()
        for item in items:
            if not item.dtype.base.is_floating:
                raise TypeError(f"The variables must be half, float, or double: {item.name}")
            if item in self._averages:
                continue
            if isinstance(item, Variable):
                average = create_slot(item, self._name, item.initialized_value)
                item.graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, item)
            else:
                zeros = partial(filled_like, item, 0.0)
                # The average of a variable's tensor lies beside it, others where they may.
                beside = registry.find(item.op.type).is_variable and item.dtype.is_ref
                average = create_slot(item, self._name, zeros, beside)
                if self._zero_debias:
                    debiased.add(average)
            self._averages[item] = average
        graph = graph_of(items)
        with graph.as_default(), graph.name_scope(self._name) as scope:
            decay = convert_to_tensor(self._decay, name="decay")
            if self._num_updates is not None:
                count = elementwise.cast(self._num_updates, decay.dtype.base, name="num_updates")
                decay = elementwise.minimum(decay, (1.0 + count) / (10.0 + count))
            averages = [(self._averages[item], item) for item in items]
            updates = [
                assign_moving_average(average, item, decay, average in debiased)
                for average, item in averages
            ]
            return group(*updates, name=scope)

    def average(self, var: Any) -> Variable | None:
        """The variable that holds the average of `var`, None when `apply` was not given it."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name of that variable, also before it is made: `var/ExponentialMovingAverage`."""
        if var in self._averages:
            return self._averages[var].op.name
        path = f"{var.op.name}/{self._name}"
        return get_default_graph().unique_name(path, mark_as_used=False)

    def variables_to_restore(
        self, moving_avg_variables: Iterable[Any] | None = None
    ) -> dict[str, Variable]:
        """For a Saver: variables by the names of their averages, the others by their own.

        Args:
            moving_avg_variables: Those that get their averages' values; when None the trainable
                ones and those given to `apply`.
        """
        if moving_avg_variables is None:
            graph = get_default_graph()
            averaged = graph.get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES)
            moving_avg_variables = [*trainable_variables(), *averaged]
        chosen = dict.fromkeys(moving_avg_variables)
        names = {self.average_name(each): each for each in chosen}
        own = {each.name for each in chosen}
        for each in global_variables():
            if each.name not in own:
                names.setdefault(each.op.name, each)
        return names
