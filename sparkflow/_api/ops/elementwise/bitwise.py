"""Operations on the bits of integers, and bits read as another type."""

from sparkflow._api.row import Row

ROWS = (
    Row("BitwiseAnd", "bitwise.bitwise_and", "x, y", "The bits set in both."),
    Row("BitwiseOr", "bitwise.bitwise_or", "x, y", "The bits set in one at least."),
    Row("BitwiseXor", "bitwise.bitwise_xor", "x, y", "The bits set in exactly one."),
    Row(
        "LeftShift",
        "bitwise.left_shift",
        "x, y",
        "`x` times 2 to the power of `y`, what overflows lost.",
    ),
    Row(
        "RightShift", "bitwise.right_shift", "x, y", "`x` over 2 to the power of `y`, rounded down."
    ),
    Row("Invert", "bitwise.invert", "x", "Every bit flipped."),
    Row(
        "Bitcast",
        "bitcast dtypes.bitcast",
        "input, type",
        "The same bytes as elements of another type.",
        returns=(
            "A tensor of dtype `type` and the shape of `input`; smaller elements add a dimension, "
            "larger ones consume the last."
        ),
    ),
)
