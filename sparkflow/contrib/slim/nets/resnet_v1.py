"""Residual networks (arXiv:1512.03385): `slim.nets.resnet_v1`."""

from __future__ import annotations

from typing import Any

import sparkflow as tf
from sparkflow.contrib import layers
from sparkflow.contrib.framework import add_arg_scope
from sparkflow.contrib.layers.variables import collect_named_outputs
from sparkflow.contrib.slim.nets.resnet_utils import (
    Block,
    block_of,
    conv2d_same,
    network_of,
    of_depth,
    resnet_arg_scope,
    subsample,
)

__all__ = [
    "bottleneck",
    "resnet_arg_scope",
    "resnet_v1",
    "resnet_v1_50",
    "resnet_v1_101",
    "resnet_v1_152",
    "resnet_v1_200",
    "resnet_v1_block",
]


@add_arg_scope
def bottleneck(
    inputs: Any,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """Returns a unit of three convolutions beside a shortcut.

    Args:
        inputs: `[n, height, width, channels]`.
        depth: Channels of the result.
        depth_bottleneck: Channels between.
        stride: The stride of the second convolution.
        rate: Its dilation.
        outputs_collections: The collections of the result.
        scope: The scope of the variables.
    """
    with tf.variable_scope(scope, "bottleneck_v1", [inputs]) as opened:
        if depth == inputs.shape.as_list()[-1]:
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = layers.conv2d(
                inputs, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut"
            )
        residual = layers.conv2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = layers.conv2d(
            residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3"
        )
        output = tf.nn.relu(shortcut + residual)
        return collect_named_outputs(outputs_collections, opened.name, output)


resnet_v1 = network_of("resnet_v1", bottleneck, normalizes_first=False)


def resnet_v1_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """Returns a block of this network, see `resnet_utils.block_of`."""
    return block_of(bottleneck, scope, base_depth, num_units, stride)


resnet_v1_50 = of_depth("resnet_v1_50", resnet_v1, resnet_v1_block, (3, 4, 6, 3))
resnet_v1_101 = of_depth("resnet_v1_101", resnet_v1, resnet_v1_block, (3, 4, 23, 3))
resnet_v1_152 = of_depth("resnet_v1_152", resnet_v1, resnet_v1_block, (3, 8, 36, 3))
resnet_v1_200 = of_depth("resnet_v1_200", resnet_v1, resnet_v1_block, (3, 24, 36, 3))
