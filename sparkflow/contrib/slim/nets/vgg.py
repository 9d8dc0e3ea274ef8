"""VGG networks (Simonyan and Zisserman 2014, arXiv:1409.1556): `slim.nets.vgg`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib import layers
from sparkflow.contrib.framework import arg_scope
from sparkflow.contrib.layers.variables import convert_collection_to_dict


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The argument scope the networks were trained in.

    Args:
        weight_decay: The scale of the regularizer of the weights.
    """
    with (
        arg_scope(
            [layers.conv2d, layers.fully_connected],
            activation_fn=tf.nn.relu,
            weights_regularizer=layers.l2_regularizer(weight_decay),
            biases_initializer=tf.zeros_initializer(),
        ),
        arg_scope([layers.conv2d], padding="SAME") as scope,
    ):
        return scope


def _vgg(
    name: str,
    repetitions: Sequence[int],
    inputs: Any,
    num_classes: int,
    is_training: Any,
    dropout_keep_prob: float,
    spatial_squeeze: bool,
    scope: Any,
    fc_padding: str = "VALID",
) -> tuple[Any, dict[str, Any]]:
    with tf.variable_scope(scope, name, [inputs]) as opened:
        collection = f"{opened.original_name_scope}_end_points"
        with arg_scope(
            [layers.conv2d, layers.fully_connected, layers.max_pool2d],
            outputs_collections=collection,
        ):
            net = inputs
            for block, count in enumerate(repetitions, 1):
                filters = min(32 * 2**block, 512)
                net = layers.repeat(
                    net, count, layers.conv2d, filters, [3, 3], scope=f"conv{block}"
                )
                net = layers.max_pool2d(net, [2, 2], scope=f"pool{block}")
            net = layers.conv2d(net, 4096, [7, 7], padding=fc_padding, scope="fc6")
            net = layers.dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout6")
            net = layers.conv2d(net, 4096, [1, 1], scope="fc7")
            net = layers.dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout7")
            net = layers.conv2d(
                net,
                num_classes,
                [1, 1],
                activation_fn=None,
                normalizer_fn=None,
                scope="fc8",
            )
            end_points = convert_collection_to_dict(collection)
            if spatial_squeeze:
                net = tf.squeeze(net, [1, 2], name="fc8/squeezed")
                end_points[f"{opened.name}/fc8"] = net
            return net, end_points


def vgg_a(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_a",
) -> tuple[Any, dict[str, Any]]:
    """The network of 11 layers.

    Args:
        inputs: [batch, 224, 224, 3].
        num_classes: The size of the result.
        is_training: Whether to drop out.
        dropout_keep_prob: The share that is kept then.
        spatial_squeeze: Leave out the dimensions of height and width.
        scope: The variable scope.

    Returns:
        [batch, num_classes], and the results of the layers by name.
    """
    return _vgg(
        "vgg_a",
        (1, 1, 2, 2, 2),
        inputs,
        num_classes,
        is_training,
        dropout_keep_prob,
        spatial_squeeze,
        scope,
    )


def vgg_16(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_16",
) -> tuple[Any, dict[str, Any]]:
    """The network of 16 layers; arguments as for `vgg_a`."""
    return _vgg(
        "vgg_16",
        (2, 2, 3, 3, 3),
        inputs,
        num_classes,
        is_training,
        dropout_keep_prob,
        spatial_squeeze,
        scope,
    )


def vgg_19(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_19",
) -> tuple[Any, dict[str, Any]]:
    """The network of 19 layers; arguments as for `vgg_a`."""
    return _vgg(
        "vgg_19",
        (2, 2, 4, 4, 4),
        inputs,
        num_classes,
        is_training,
        dropout_keep_prob,
        spatial_squeeze,
        scope,
    )


vgg_d, vgg_e = vgg_16, vgg_19
for _network in (vgg_a, vgg_16, vgg_19):
    _network.default_image_size = 224  # type: ignore[attr-defined]
