"""What both kinds of residual networks are made of: `slim.nets.resnet_utils`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import sparkflow as tf
from sparkflow.contrib import layers
from sparkflow.contrib.framework import add_arg_scope, arg_scope
from sparkflow.contrib.layers.variables import collect_named_outputs, convert_collection_to_dict

_ROOT_STRIDE = 4


class Block(NamedTuple):
    """A block of a network.

    Attributes:
        scope: Its name.
        unit_fn: Builds a unit on a tensor.
        args: The arguments of each unit: its `depth`, `depth_bottleneck` and `stride`.
    """

    scope: str
    unit_fn: Callable[..., Any]
    args: Sequence[Mapping[str, Any]]


def block_of(
    unit_fn: Callable[..., Any], scope: str, base_depth: int, num_units: int, stride: int
) -> Block:
    """Returns a block whose last unit has a stride.

    Args:
        unit_fn: As for `Block`.
        scope: As for `Block`.
        base_depth: Channels of the bottlenecks; units have four times as many.
        num_units: The number of units.
        stride: That of the last unit.
    """
    unit = {"depth": base_depth * 4, "depth_bottleneck": base_depth, "stride": 1}
    return Block(scope, unit_fn, [unit] * (num_units - 1) + [{**unit, "stride": stride}])


def subsample(inputs: Any, factor: int, scope: str | None = None) -> Any:
    """Returns every `factor`th pixel of every `factor`th row of images."""
    if factor == 1:
        return inputs
    return layers.max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(
    inputs: Any,
    num_outputs: int,
    kernel_size: int,
    stride: int,
    rate: int = 1,
    scope: str | None = None,
) -> Any:
    """A convolution with a stride that is that of stride 1, subsampled.

    `padding="SAME"` alone pads images of even sizes more at the end than at the beginning.

    Args:
        inputs: `[n, height, width, channels]`.
        num_outputs: The number of filters.
        kernel_size: Their height and width.
        stride: The stride.
        rate: The dilation.
        scope: The scope of the variables.
    """
    if stride == 1:
        return layers.conv2d(
            inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope
        )
    total = (kernel_size - 1) * rate
    before = total // 2
    edges = [before, total - before]
    padded = tf.pad(inputs, [[0, 0], edges, edges, [0, 0]])
    return layers.conv2d(
        padded, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope
    )


@add_arg_scope
def stack_blocks_dense(
    net: Any,
    blocks: Sequence[Block],
    output_stride: int | None = None,
    outputs_collections: Any = None,
) -> Any:
    """Returns blocks on a tensor, with dilated convolutions from a given stride on.

    Args:
        net: `[n, height, width, channels]`.
        blocks: The blocks.
        output_stride: The most by which the result is smaller than `net`: later units get dilated
            convolutions instead of strides. None for no limit.
        outputs_collections: The collections of the blocks' outputs.

    Raises:
        ValueError: The strides do not come to `output_stride`.
    """
    stride = rate = 1
    for block in blocks:
        with tf.variable_scope(block.scope, "block", [net]) as scope:
            for number, unit in enumerate(block.args, 1):
                if output_stride is not None and stride > output_stride:
                    raise ValueError("The target output_stride cannot be reached.")
                with tf.variable_scope(f"unit_{number}", values=[net]):
                    if stride == output_stride:
                        net = block.unit_fn(net, rate=rate, **{**unit, "stride": 1})
                        rate *= unit.get("stride", 1)
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        stride *= unit.get("stride", 1)
            net = collect_named_outputs(outputs_collections, scope.name, net)
    if output_stride is not None and stride != output_stride:
        raise ValueError("The target output_stride cannot be reached.")
    return net


def network_of(
    name: str, unit_fn: Callable[..., Any], normalizes_first: bool
) -> Callable[..., Any]:
    """Returns the function that builds a kind of residual network.

    Args:
        name: Its name, and its default scope.
        unit_fn: Builds a unit.
        normalizes_first: Whether units normalize their inputs, instead of their convolutions.
    """

    def network(
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
            is_training: Whether batches are normalized by themselves; that of the argument scope
                when None.
            global_pool: Whether to average over all pixels.
            output_stride: The most by which the last block's output is smaller than the images,
                for features that are dense; None for 32.
            include_root_block: Whether to begin with a convolution and a pooling of stride 2 each.
            reuse: Whether to use existing variables.
            scope: The scope of the variables.

        Raises:
            ValueError: The strides do not come to `output_stride`.
        """
        training = (
            nullcontext()
            if is_training is None
            else arg_scope([layers.batch_norm], is_training=is_training)
        )
        plain = {"activation_fn": None, "normalizer_fn": None}
        with tf.variable_scope(scope, name, [inputs], reuse=reuse) as opened:
            collection = f"{opened.original_name_scope}_end_points"
            named = [layers.conv2d, unit_fn, stack_blocks_dense]
            with training, arg_scope(named, outputs_collections=collection):
                net = _root(inputs, normalizes_first) if include_root_block else inputs
                net = stack_blocks_dense(net, blocks, _within(output_stride, include_root_block))
                if normalizes_first:
                    net = layers.batch_norm(net, activation_fn=tf.nn.relu, scope="postnorm")
                if global_pool:
                    net = tf.reduce_mean(net, [1, 2], keepdims=True, name="pool5")
                if num_classes is not None:
                    net = layers.conv2d(net, num_classes, [1, 1], scope="logits", **plain)
                end_points = convert_collection_to_dict(collection)
                if num_classes is not None:
                    end_points["predictions"] = layers.softmax(net, scope="predictions")
                return net, end_points

    network.__name__ = network.__qualname__ = name
    return network


def _root(inputs: Any, normalizes_first: bool) -> Any:
    # The first unit then normalizes and activates.
    given = {"activation_fn": None, "normalizer_fn": None} if normalizes_first else {}
    with arg_scope([layers.conv2d], **given):
        net = conv2d_same(inputs, 64, 7, stride=2, scope="conv1")
    return layers.max_pool2d(net, [3, 3], stride=2, scope="pool1")


def _within(output_stride: int | None, has_root: bool) -> int | None:
    """Returns the `output_stride` of the blocks, after a root block of stride 4.

    Raises:
        ValueError: It is no multiple of 4.
    """
    if output_stride is None or not has_root:
        return output_stride
    if output_stride % _ROOT_STRIDE:
        raise ValueError("The output_stride needs to be a multiple of 4.")
    return output_stride // _ROOT_STRIDE


def of_depth(
    name: str, resnet: Callable[..., Any], block: Callable[..., Block], units: Sequence[int]
) -> Callable[..., Any]:
    """Returns the function of a published network.

    Args:
        name: Its name, and its default scope.
        resnet: `resnet_v1` or `resnet_v2`.
        block: `resnet_v1_block` or `resnet_v2_block`.
        units: The number of units of each block.
    """
    strides = [2] * (len(units) - 1) + [1]
    blocks = [
        block(f"block{number + 1}", 64 << number, count, strides[number])
        for number, count in enumerate(units)
    ]

    def network(
        inputs: Any,
        num_classes: int | None = None,
        is_training: Any = None,
        global_pool: bool = True,
        output_stride: int | None = None,
        reuse: Any = None,
        scope: str = name,
    ) -> tuple[Any, dict[str, Any]]:
        given = (num_classes, is_training, global_pool, output_stride)
        found: tuple[Any, dict[str, Any]] = resnet(inputs, blocks, *given, reuse=reuse, scope=scope)
        return found

    network.__name__ = network.__qualname__ = name
    network.__doc__ = f"The network of {name.rpartition('_')[2]} layers; see `{resnet.__name__}`."
    network.default_image_size = 224  # type: ignore[attr-defined]
    return network


def resnet_arg_scope(
    weight_decay: float = 0.0001,
    batch_norm_decay: float = 0.997,
    batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
) -> Any:
    """The argument scope of residual networks.

    Args:
        weight_decay: The scale of the regularizer of the weights.
        batch_norm_decay: The decay of the moving averages.
        batch_norm_epsilon: What is added to variances.
        batch_norm_scale: Whether normalized values are scaled.
    """
    norm = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "scale": batch_norm_scale,
        "updates_collections": tf.GraphKeys.UPDATE_OPS,
    }
    with (
        arg_scope(
            [layers.conv2d],
            weights_regularizer=layers.l2_regularizer(weight_decay),
            weights_initializer=layers.variance_scaling_initializer(),
            activation_fn=tf.nn.relu,
            normalizer_fn=layers.batch_norm,
            normalizer_params=norm,
        ),
        arg_scope([layers.batch_norm], **norm),
        arg_scope([layers.max_pool2d], padding="SAME") as scope,
    ):
        return scope
