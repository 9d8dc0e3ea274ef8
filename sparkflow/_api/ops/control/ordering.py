"""Nodes that order others: identity, group, tuple, no_op."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "StopGradient", "stop_gradient", "input", "The same value, through which no gradient flows."
    ),
    Row("NoOp", "no_op", "", "A node that does nothing."),
)
