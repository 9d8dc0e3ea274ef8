"""Lists of variables, and the nodes that initialise or check them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import get_collection, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import group
from sparkflow.ops.elementwise import comparison
from sparkflow.ops.shape import arrays
from sparkflow.ops.state import state
from sparkflow.variables.variable import Variable


@export("global_variables")
def global_variables(scope: str | None = None) -> list[Variable]:
    """The variables shared by the tasks of a cluster, those whose name `scope` matches."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


@export("local_variables")
def local_variables(scope: str | None = None) -> list[Variable]:
    """The variables of one process only, those whose name `scope` matches."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


@export("trainable_variables")
def trainable_variables(scope: str | None = None) -> list[Variable]:
    """The variables that optimizers change, those whose name `scope` matches."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


@export("model_variables")
def model_variables(scope: str | None = None) -> list[Variable]:
    """The variables listed as part of the model, those whose name `scope` matches."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


@export("moving_average_variables")
def moving_average_variables(scope: str | None = None) -> list[Variable]:
    """The variables of which moving averages are kept, those whose name `scope` matches."""
    return get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


@export("all_variables")
def all_variables() -> list[Variable]:
    """The old name of `global_variables`."""
    return global_variables()


@export("variables_initializer", "initializers.variables", "initializers.variables_initializer")
def variables_initializer(var_list: Sequence[Variable], name: str = "init") -> Operation:
    """An operation that sets each variable to its initial value."""
    return group(*[variable.initializer for variable in var_list or ()], name=name)


@export(
    "global_variables_initializer",
    "initializers.global_variables",
    "initializers.global_variables_initializer",
)
def global_variables_initializer() -> Operation:
    """An operation that initialises the global variables."""
    return variables_initializer(global_variables())


@export(
    "local_variables_initializer",
    "initializers.local_variables",
    "initializers.local_variables_initializer",
)
def local_variables_initializer() -> Operation:
    """An operation that initialises the local variables."""
    return variables_initializer(local_variables())


@export("initialize_variables")
def initialize_variables(var_list: Sequence[Variable], name: str = "init") -> Operation:
    """The old name of `variables_initializer`."""
    return variables_initializer(var_list, name)


@export("initialize_all_variables")
def initialize_all_variables() -> Operation:
    """The old name of `global_variables_initializer`."""
    return global_variables_initializer()


@export("initialize_local_variables")
def initialize_local_variables() -> Operation:
    """The old name of `local_variables_initializer`."""
    return local_variables_initializer()


@export("assert_variables_initialized")
def assert_variables_initialized(var_list: Sequence[Variable] | None = None) -> Any:
    """An operation that fails with FailedPreconditionError unless all variables have values.

    Args:
        var_list: The variables asked about; the global and local ones when None.

    Returns:
        The operation; None where there is no variable.
    """
    variables = list(global_variables() + local_variables() if var_list is None else var_list)
    if not variables:
        return None
    return group(*[variable.read_value() for variable in variables])


@export("report_uninitialized_variables")
def report_uninitialized_variables(
    var_list: Sequence[Variable] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """The names of the variables that have no value yet: [count] strings.

    Args:
        var_list: The variables asked about; the global and local ones when None.
        name: Name of the scope.
    """
    variables: list[Any] = list(
        global_variables() + local_variables() if var_list is None else var_list
    )
    graph = get_default_graph()
    with graph.name_scope(name):
        if not variables:
            return graph.convert(np.zeros([0], np.object_), None, "Const")
        flags = [state.is_variable_initialized(variable) for variable in variables]
        missing = comparison.logical_not(arrays.stack(flags))
        names = graph.convert([variable.op.name for variable in variables], None, "Const")
        return arrays.boolean_mask(names, missing)
