"""Looking at values while a step runs: assertions, prints and checks for infinity."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "CheckNumerics",
        "check_numerics debugging.check_numerics",
        "tensor, message: str",
        "`tensor`, an error that begins with `message` where it is infinite or not a number.",
    ),
)
