"""Normalisations of `tf.contrib.layers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.scoped_arguments import add_arg_scope
from sparkflow.contrib.framework.variables import model_variable
from sparkflow.contrib.layers.variables import (
    collections_of,
    finished,
    list_variable,
    variable_getter,
)
from sparkflow.layers.normalization import BatchNormalization


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Any = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: Any = tf.GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_decay: float = 0.99,
    adjustment: Any = None,
) -> Any:
    """Inputs normalised per channel (Ioffe and Szegedy 2015), with moving averages for inference.

    Args:
        inputs: [batch, ..., channels].
        decay: What stays of the moving averages in a step.
        center: Add `beta`.
        scale: Multiply with `gamma`.
        epsilon: Added to the variance.
        activation_fn: A function of the result, None for none.
        param_initializers: By name: `beta`, `gamma`, `moving_mean`, `moving_variance`.
        param_regularizers: By name: `beta`, `gamma`.
        updates_collections: Where the updates of the averages are listed; None to run them before
            the result is there.
        is_training: A flag or a boolean tensor.
        reuse: Whether to use the variables that exist in `scope`.
        variables_collections: Collections for the variables: a list, or lists by variable name.
        outputs_collections: Collections for the result.
        trainable: Whether optimizers change `beta` and `gamma`.
        batch_weights: Not taken: must be None.
        fused: Use the fused op; where it can be used when None.
        data_format: `NHWC` or `NCHW`.
        zero_debias_moving_mean: Not taken: must be False.
        scope: The variable scope; `BatchNorm` when None.
        renorm: As for `tf.layers.batch_normalization`, as the following.
        renorm_clipping: See there.
        renorm_decay: See there.
        adjustment: See there.

    Raises:
        ValueError: Another data format, an unknown number of channels, or what is not taken.
    """
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    if batch_weights is not None or zero_debias_moving_mean:
        raise ValueError(
            "batch_norm takes neither batch_weights nor zero_debias_moving_mean: compute weighted "
            "statistics with tf.nn.weighted_moments, or start from a smaller decay"
        )
    with tf.variable_scope(
        scope, "BatchNorm", [inputs], reuse=reuse, custom_getter=variable_getter()
    ) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        channels = inputs.shape.dims[1 if data_format == "NCHW" else -1].value
        if channels is None:
            raise ValueError(
                f"Inputs {inputs.name} has undefined channels dimension {inputs.shape}."
            )
        # TensorFlow normalises matrices as images of one pixel, by the fused op.
        as_image = rank == 2 and fused in (None, True) and not renorm and adjustment is None
        source = tf.reshape(inputs, [-1, 1, 1, channels]) if as_image else inputs
        initializers = dict(param_initializers or {})
        regularizers = dict(param_regularizers or {})
        layer = BatchNormalization(
            axis=1 if data_format == "NCHW" and not as_image else -1,
            momentum=decay,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=initializers.get("beta", tf.zeros_initializer()),
            gamma_initializer=initializers.get("gamma", tf.ones_initializer()),
            moving_mean_initializer=initializers.get("moving_mean", tf.zeros_initializer()),
            moving_variance_initializer=initializers.get("moving_variance", tf.ones_initializer()),
            beta_regularizer=regularizers.get("beta"),
            gamma_regularizer=regularizers.get("gamma"),
            trainable=trainable,
            renorm=renorm,
            renorm_clipping=renorm_clipping,
            renorm_momentum=renorm_decay,
            adjustment=adjustment,
            fused=fused,
            name=opened.name,
            _scope=opened,
            _reuse=reuse,
        )
        listed = tf.get_default_graph().get_collection_ref(tf.GraphKeys.UPDATE_OPS)
        before = len(listed)
        outputs = layer(source, training=is_training)
        updates = listed[before:]
        del listed[before:]
        for name in ("beta", "gamma", "moving_mean", "moving_variance"):
            variable = getattr(layer, name, None)
            if variable is not None:
                list_variable(variable, variables_collections, name)
        if updates_collections is None:
            with tf.control_dependencies(updates):
                outputs = tf.identity(outputs)
        else:
            for update in updates:
                tf.add_to_collections(updates_collections, update)
        if as_image:
            outputs = tf.reshape(outputs, tf.shape(inputs))
            outputs.set_shape(inputs.shape)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


def _parameter(
    name: str, wanted: bool, shape: Sequence[int], like: Any, initializer: Any,
    collections: Any, trainable: bool,
) -> Any:  # fmt: skip
    if not wanted:
        return None
    return model_variable(
        name,
        shape=shape,
        dtype=like.dtype.base_dtype,
        initializer=initializer,
        collections=collections_of(collections, name),
        trainable=trainable,
    )


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """Inputs normalised per example (Ba et al. 2016, arXiv:1607.06450).

    Args:
        inputs: [batch, ...].
        center: Add `beta`.
        scale: Multiply with `gamma`.
        activation_fn: A function of the result, None for none.
        reuse: See `batch_norm`, as for the next three.
        variables_collections: See there.
        outputs_collections: See there.
        trainable: See there.
        begin_norm_axis: The statistics are those of the dimensions from here on.
        begin_params_axis: `beta` and `gamma` have the dimensions from here on.
        scope: The variable scope; `LayerNorm` when None.

    Raises:
        ValueError: An unknown rank or size, or an axis that there is not.
    """
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        begin = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or begin >= rank:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin}) must be < "
                f"rank(inputs) ({rank})"
            )
        params_shape = inputs.shape[begin_params_axis:]
        if not params_shape.is_fully_defined():
            raise ValueError(
                f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: "
                f"{inputs.shape}"
            )
        shape = params_shape.as_list()
        beta = _parameter(
            "beta", center, shape, inputs, tf.zeros_initializer(), variables_collections, trainable
        )
        gamma = _parameter(
            "gamma", scale, shape, inputs, tf.ones_initializer(), variables_collections, trainable
        )
        mean, variance = tf.nn.moments(inputs, list(range(begin, rank)), keep_dims=True)
        epsilon = 1e-3 if inputs.dtype.base_dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(
            inputs, mean, variance, offset=beta, scale=gamma, variance_epsilon=epsilon
        )
        outputs.set_shape(inputs.shape)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """Inputs normalised per example and channel (Ulyanov et al. 2016, arXiv:1607.08022).

    Arguments as for `batch_norm`; the scope is `InstanceNorm` when None.

    Raises:
        ValueError: Another data format, or an unknown rank or number of channels.
    """
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        axis = 1 if data_format == "NCHW" else rank - 1
        channels = inputs.shape.dims[axis].value
        if channels is None:
            raise ValueError(
                f"Inputs {inputs.name} has undefined channels dimension {inputs.shape}."
            )
        shape = [1] * rank
        shape[axis] = channels
        beta, gamma = _affine(
            inputs, center, scale, [channels], param_initializers, variables_collections, trainable
        )
        if data_format == "NCHW":
            beta, gamma = _shaped(beta, shape), _shaped(gamma, shape)
        axes = [each for each in range(1, rank) if each != axis]
        mean, variance = tf.nn.moments(inputs, axes, keep_dims=True)
        outputs = tf.nn.batch_normalization(
            inputs, mean, variance, beta, gamma, epsilon, name="instancenorm"
        )
        outputs.set_shape(inputs.shape)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


def _affine(
    inputs: Any, center: bool, scale: bool, shape: Sequence[int],
    initializers: Mapping[str, Any] | None, collections: Any, trainable: bool,
) -> tuple[Any, Any]:  # fmt: skip
    given = dict(initializers or {})
    zeros, ones = tf.zeros_initializer(), tf.ones_initializer()
    return (
        _parameter("beta", center, shape, inputs, given.get("beta", zeros), collections, trainable),
        _parameter("gamma", scale, shape, inputs, given.get("gamma", ones), collections, trainable),
    )


def _shaped(parameter: Any, shape: Sequence[int]) -> Any:
    return None if parameter is None else tf.reshape(parameter, shape)


@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Sequence[int] = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    mean_close_to_zero: bool = False,
) -> Any:
    """Inputs normalised per example and group of channels (Wu and He 2018, arXiv:1803.08494).

    Args:
        inputs: A tensor of known rank and number of channels.
        groups: The number of groups.
        channels_axis: The dimension of the channels.
        reduction_axes: The dimensions of which the statistics are; the channels are another one.
        center: See `batch_norm`, as for the others.
        scale: See there.
        epsilon: See there.
        activation_fn: See there.
        param_initializers: See there.
        reuse: See there.
        variables_collections: See there.
        outputs_collections: See there.
        trainable: See there.
        scope: The variable scope; `GroupNorm` when None.
        mean_close_to_zero: Accepted for TensorFlow's sake: the sum is exact enough either way.

    Raises:
        ValueError: An unknown size, axes that are not distinct, or groups of unequal size.
    """
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    axis = channels_axis % rank
    reduced = sorted(each % rank for each in reduction_axes)
    if axis in reduced:
        raise ValueError("reduction_axes must be mutually exclusive with channels_axis")
    channels = inputs.shape.dims[axis].value
    if channels is None:
        raise ValueError(f"Inputs {inputs.name} has undefined channel dimension: {axis}.")
    if groups > channels:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    if channels % groups:
        raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
    with tf.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as opened:
        beta, gamma = _affine(
            inputs, center, scale, [channels], param_initializers, variables_collections, trainable
        )
        sizes = tf.shape(inputs)
        split = tf.concat([sizes[:axis], [groups, channels // groups], sizes[axis + 1 :]], 0)
        spread = tf.reshape(inputs, split)
        axes = [each + (each > axis) for each in reduced] + [axis + 1]
        mean, variance = tf.nn.moments(spread, axes, keep_dims=True)
        broadcast = [1] * (rank + 1)
        broadcast[axis], broadcast[axis + 1] = groups, channels // groups
        outputs = tf.nn.batch_normalization(
            spread, mean, variance, _shaped(beta, broadcast), _shaped(gamma, broadcast), epsilon
        )
        outputs = tf.reshape(outputs, sizes)
        outputs.set_shape(inputs.shape)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Any:
    """The inputs, of length 1 along a dimension.

    Raises:
        ValueError: The rank is not known, or there is no such dimension.
    """
    with tf.variable_scope(scope, "UnitNorm", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("The input rank must be known.")
        if dim < 0 or dim >= rank:
            raise ValueError("dim must be positive but smaller than the input rank.")
        lengths = tf.sqrt(epsilon + tf.reduce_sum(tf.square(inputs), dim, keepdims=True))
        return tf.div(inputs, lengths)
