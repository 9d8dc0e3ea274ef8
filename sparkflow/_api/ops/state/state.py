"""Nodes that change variables: assign and scatter."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "CountUpTo",
        "count_up_to",
        "ref, limit: int",
        "Adds 1 to an integer variable and gives the value before; OutOfRangeError at `limit`.",
    ),
    Row(
        "IsVariableInitialized",
        "is_variable_initialized",
        "ref",
        "Whether the variable has a value: a bool.",
    ),
)
