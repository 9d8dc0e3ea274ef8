"""Sorting, searching in sorted rows, sets of numbers, coordinates."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "UnravelIndex",
        "unravel_index",
        "indices, dims",
        "The coordinates of flat indices in a tensor of shape `dims`: [rank, ...].",
    ),
)
