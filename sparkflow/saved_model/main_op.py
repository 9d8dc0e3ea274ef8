"""Operations for a saved model to run when it is loaded."""

from __future__ import annotations

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import control_dependencies, get_collection, get_default_graph
from sparkflow.ops.control.ordering import group
from sparkflow.variables.initialization import (
    global_variables_initializer,
    local_variables_initializer,
)


def main_op() -> Operation:
    """Initialises all variables and tables."""
    return group(
        global_variables_initializer(), local_variables_initializer(), *_table_initializers()
    )


def main_op_with_restore(restore_op_name: str) -> Operation:
    """Initialises all variables and tables, and restores then.

    Args:
        restore_op_name: The name of the operation that restores the variables.
    """
    restored = get_default_graph().as_graph_element(restore_op_name)
    with control_dependencies([main_op()]):
        return group(restored)


def _table_initializers() -> list[Operation]:
    return get_collection(GraphKeys.TABLE_INITIALIZERS)
