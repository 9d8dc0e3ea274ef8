"""Constants, placeholders and tensors of one value."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "PlaceholderWithDefault",
        "placeholder_with_default",
        "input, shape",
        "A tensor that may be fed, and is `input` otherwise.",
    ),
    Row("Fill", "fill", "dims, value", "A tensor of shape `dims` with `value` everywhere."),
    Row(
        "LinSpace",
        "lin_space linspace",
        'start, stop, num, name: str = "linspace"',
        "`num` evenly spaced numbers from `start` to `stop`, both included.",
    ),
)
