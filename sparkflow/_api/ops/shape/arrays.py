"""Shapes and their changes: reshape, transpose, concat, split, tile, pad, gather, slices."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "Reshape",
        "reshape manip.reshape",
        "tensor, shape",
        "The same elements in another shape; one size may be -1, which means what is left.",
    ),
    Row(
        "Tile",
        "tile manip.tile",
        "input, multiples",
        "Repeats the whole `multiples[i]` times along dimension i.",
        takes="ragged",
    ),
    Row(
        "BroadcastTo",
        "broadcast_to",
        "input, shape",
        "Repeats dimensions of size 1 until the shape is `shape`.",
    ),
    Row(
        "ReverseV2",
        "reverse manip.reverse reverse_v2",
        "tensor, axis",
        "The elements along `axis` (a list of axes) in reverse order.",
    ),
    Row(
        "Slice",
        "slice",
        "input_, begin, size",
        "The block of `size` that starts at `begin`; a size of -1 means all that is left.",
    ),
    Row(
        "GatherNd",
        "gather_nd manip.gather_nd",
        "params, indices",
        (
            "The elements or slices of `params` at the coordinates in the last dimension of "
            "`indices`."
        ),
        takes="ragged",
    ),
)
