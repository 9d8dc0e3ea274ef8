"""Blocks of space moved into the batch or the channels, and back."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "SpaceToDepth",
        "space_to_depth nn.space_to_depth",
        'input, block_size: int, name=None, data_format: str = "NHWC"',
        "Blocks of height and width become channels: [n, h, w, c] to [n, h/b, w/b, c * b * b].",
    ),
    Row(
        "DepthToSpace",
        "depth_to_space nn.depth_to_space",
        'input, block_size: int, name=None, data_format: str = "NHWC"',
        (
            "Channels become blocks of height and width: [n, h, w, c] to [n, h * b, w * b, c "
            "/ b / b]."
        ),
    ),
    Row(
        "SpaceToBatchND",
        "space_to_batch_nd manip.space_to_batch_nd",
        "input, block_shape, paddings",
        "Pads the dimensions after the first, and moves blocks of them into the batch.",
        arguments={
            "input": "[batch, space..., rest...].",
            "block_shape": "[m] integers, one for each dimension of space.",
            "paddings": "[m, 2] integers, (before, after).",
        },
    ),
    Row(
        "BatchToSpaceND",
        "batch_to_space_nd manip.batch_to_space_nd",
        "input, block_shape, crops",
        "The inverse of `space_to_batch_nd`; `crops` [m, 2] is what to cut off.",
    ),
)
