"""Convolution over one, two and three dimensions, plain, depthwise and separable.

Transposed convolutions are in `transposed_convolution`, pooling in `pooling`.
"""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "Conv3DBackpropFilterV2",
        "nn.conv3d_backprop_filter nn.conv3d_backprop_filter_v2",
        (
            'input, filter_sizes, out_backprop, strides, padding, data_format: str = "NDHWC", '
            "dilations: Sequence[int] = (1, 1, 1, 1, 1)"
        ),
        "The gradient of `conv3d` with respect to its filter, of the shape `filter_sizes`.",
    ),
)
