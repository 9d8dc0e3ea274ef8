"""Sums, means, extrema over axes; positions of extrema."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "Cumsum",
        "cumsum math.cumsum",
        "x, axis=0, exclusive: bool = False, reverse: bool = False",
        "Running sums along `axis`; `exclusive` starts at 0, `reverse` runs from the end.",
    ),
    Row(
        "Cumprod",
        "cumprod math.cumprod",
        "x, axis=0, exclusive: bool = False, reverse: bool = False",
        "Running products along `axis`; `exclusive` starts at 1, `reverse` runs from the end.",
    ),
    Row(
        "CumulativeLogsumexp",
        "math.cumulative_logsumexp",
        "x, axis=0, exclusive: bool = False, reverse: bool = False",
        "Running log(sum(exp(x))) along `axis`; `exclusive` starts at the least finite number.",
    ),
)
