"""Comparisons, logic and selection."""

from sparkflow._api.row import Row

ROWS = (
    Row("Equal", "equal math.equal", "x, y", "Whether x == y, elementwise."),
    Row("NotEqual", "not_equal math.not_equal", "x, y", "Whether x != y, elementwise."),
    Row("Less", "less math.less", "x, y", "Whether x < y, elementwise."),
    Row("LessEqual", "less_equal math.less_equal", "x, y", "Whether x <= y, elementwise."),
    Row("Greater", "greater math.greater", "x, y", "Whether x > y, elementwise."),
    Row("GreaterEqual", "greater_equal math.greater_equal", "x, y", "Whether x >= y, elementwise."),
    Row(
        "LogicalAnd", "logical_and math.logical_and", "x, y", "Whether both are true, elementwise."
    ),
    Row(
        "LogicalOr",
        "logical_or math.logical_or",
        "x, y",
        "Whether one is true at least, elementwise.",
    ),
    Row("LogicalNot", "logical_not math.logical_not", "x", "Whether the element is false."),
)
