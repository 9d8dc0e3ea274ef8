"""Residual networks that normalize first (arXiv:1603.05027): `slim.nets.resnet_v2`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib import layers
from sparkflow.contrib.framework import add_arg_scope
from sparkflow.contrib.layers.variables import collect_named_outputs
from sparkflow.contrib.slim.nets.resnet_utils import (
    Block,
    block_of,
    build,
    conv2d_same,
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


def resnet_v2(
    inputs: Any,
    blocks: Sequence[Block],
    num_classes: int | None = None,
    is_training: Any = None,
    global_pool: bool = True,
    output_stride: int | None = None,
    include_root_block: bool = True,
    reuse: Any = None,
    scope: str | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Returns a network and its layers' outputs by name; to be built in `resnet_arg_scope`.

    Args:
        inputs: `[n, height, width, channels]`.
        blocks: The blocks.
        num_classes: The number of logits, `[n, 1, 1, num_classes]`; None for features.
        is_training: Whether batches are normalized by themselves; that of the argument scope when
            None.
        global_pool: Whether to average over all pixels.
        output_stride: The most by which the last block's output is smaller than the images, for
            features that are dense; None for 32.
        include_root_block: Whether to begin with a convolution and a pooling of stride 2 each.
        reuse: Whether to use existing variables.
        scope: The scope of the variables.

    Raises:
        ValueError: The strides do not come to `output_stride`.
    """
    given = (num_classes, is_training, global_pool, output_stride, include_root_block, reuse, scope)
    return build("resnet_v2", True, bottleneck, inputs, blocks, *given)


def resnet_v2_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """Returns a block of this network, see `resnet_utils.block_of`."""
    return block_of(bottleneck, scope, base_depth, num_units, stride)


resnet_v2_50 = of_depth("resnet_v2_50", resnet_v2, resnet_v2_block, (3, 4, 6, 3))
resnet_v2_101 = of_depth("resnet_v2_101", resnet_v2, resnet_v2_block, (3, 4, 23, 3))
resnet_v2_152 = of_depth("resnet_v2_152", resnet_v2, resnet_v2_block, (3, 8, 36, 3))
resnet_v2_200 = of_depth("resnet_v2_200", resnet_v2, resnet_v2_block, (3, 24, 36, 3))
