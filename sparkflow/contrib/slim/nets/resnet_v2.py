"""Residual networks that normalize first (arXiv:1603.05027): `slim.nets.resnet_v2`."""

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
    "resnet_v2",
    "resnet_v2_50",
    "resnet_v2_101",
    "resnet_v2_152",
    "resnet_v2_200",
    "resnet_v2_block",
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
    plain = {"normalizer_fn": None, "activation_fn": None}
    with tf.variable_scope(scope, "bottleneck_v2", [inputs]) as opened:
        before = layers.batch_norm(inputs, activation_fn=tf.nn.relu, scope="preact")
        if depth == inputs.shape.as_list()[-1]:
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = layers.conv2d(
                before, depth, [1, 1], stride=stride, scope="shortcut", **plain
            )
        residual = layers.conv2d(before, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = layers.conv2d(residual, depth, [1, 1], stride=1, scope="conv3", **plain)
        output = shortcut + residual
        return collect_named_outputs(outputs_collections, opened.name, output)


resnet_v2 = network_of("resnet_v2", bottleneck, normalizes_first=True)


def resnet_v2_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """Returns a block of this network, see `resnet_utils.block_of`."""
    return block_of(bottleneck, scope, base_depth, num_units, stride)


resnet_v2_50 = of_depth("resnet_v2_50", resnet_v2, resnet_v2_block, (3, 4, 6, 3))
resnet_v2_101 = of_depth("resnet_v2_101", resnet_v2, resnet_v2_block, (3, 4, 23, 3))
resnet_v2_152 = of_depth("resnet_v2_152", resnet_v2, resnet_v2_block, (3, 8, 36, 3))
resnet_v2_200 = of_depth("resnet_v2_200", resnet_v2, resnet_v2_block, (3, 24, 36, 3))
