"""Batch normalisation as a layer, with moving averages for inference."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op, convert_to_tensor, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.tensor_shape import TensorShape
from sparkflow.initializers import Ones, Zeros
from sparkflow.layers.base import Layer
from sparkflow.layers.input_spec import InputSpec
from sparkflow.layers.training import known_flag, smart_cond
from sparkflow.ops import arrays, clip, constants, control, elementwise, normalization, reduction
from sparkflow_runtime.dtypes import bfloat16, float16, float32


class BatchNormalization(Layer):
    """Inputs normalised per channel (Ioffe and Szegedy 2015).

    In training the statistics are those of the batch, and operations in `UPDATE_OPS` move the
    averages `moving_mean` and `moving_variance`, which are used in inference.

    Args:
        axis: The dimension of channels, or a list of dimensions.
        momentum: What stays of the moving averages in a step.
        epsilon: Added to the variance.
        center: Whether `beta` is added.
        scale: Whether is multiplied with `gamma`.
        beta_initializer: As for `get_variable`; so are the other initializers.
        gamma_initializer: See there.
        moving_mean_initializer: See there.
        moving_variance_initializer: See there.
        beta_regularizer: As for `get_variable`.
        gamma_regularizer: As for `get_variable`.
        beta_constraint: As for `get_variable`.
        gamma_constraint: As for `get_variable`.
        renorm: Correct the batch's statistics towards the moving ones (Ioffe 2017).
        renorm_clipping: Bounds `rmax`, `rmin`, `dmax` of the correction.
        renorm_momentum: What stays of the moving statistics used for it.
        fused: Use the fused op; where it can be used when None.
        trainable: Whether optimizers change `beta` and `gamma`.
        virtual_batch_size: Normalise in groups of this many examples.
        adjustment: A function of the shape that gives a scale and an offset for training.
        name: The variable scope; `batch_normalization`, ... when None.
        kwargs: As for `Layer`.

    Raises:
        ValueError: Arguments that exclude each other.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = Zeros,
        gamma_initializer: Any = Ones,
        moving_mean_initializer: Any = Zeros,
        moving_variance_initializer: Any = Ones,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: dict[str, Any] | None = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable, name, **kwargs)
        self.axis: list[int] = list(axis) if isinstance(axis, list | tuple) else [int(axis)]
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = beta_initializer
        self.gamma_initializer = gamma_initializer
        self.moving_mean_initializer = moving_mean_initializer
        self.moving_variance_initializer = moving_variance_initializer
        self.beta_regularizer = beta_regularizer
        self.gamma_regularizer = gamma_regularizer
        self.beta_constraint = beta_constraint
        self.gamma_constraint = gamma_constraint
        self.renorm = renorm
        self.renorm_clipping = dict(renorm_clipping or {})
        unknown = set(self.renorm_clipping) - {"rmax", "rmin", "dmax"}
        if unknown:
            raise ValueError(f"renorm_clipping {renorm_clipping} contains keys not in rmax, ...")
        self.renorm_momentum = renorm_momentum
        self.virtual_batch_size = virtual_batch_size
        self.adjustment = adjustment
        special = renorm or virtual_batch_size is not None or adjustment is not None
        if fused and special:
            raise ValueError(
                "fused batch norm does not support renorm, virtual_batch_size or adjustment"
            )
        self.fused = False if special else fused
        self.gamma: Any = None
        self.beta: Any = None
        self.moving_mean: Any = None
        self.moving_variance: Any = None
        self._renorm_mean: Any = None
        self._renorm_stddev: Any = None

    def build(self, input_shape: Any) -> None:
        """Makes `gamma`, `beta`, `moving_mean` and `moving_variance`.

        Raises:
            ValueError: The rank or the sizes along the axes are not known, or an axis is wrong.
        """
        shape = TensorShape(input_shape)
        if shape.ndims is None:
            raise ValueError("Input has undefined rank.")
        rank = shape.ndims
        axes = [axis + rank if axis < 0 else axis for axis in self.axis]
        if any(not 0 <= axis < rank for axis in axes):
            raise ValueError(f"Invalid axis: {self.axis}")
        if len(set(axes)) != len(axes):
            raise ValueError(f"Duplicate axis: {axes}")
        self.axis = axes
        if self.fused is None:
            narrow = self._dtype in (float16, bfloat16, float32)
            self.fused = rank == 4 and axes in ([1], [3]) and narrow
        sizes = {axis: shape[axis].value for axis in axes}
        if None in sizes.values():
            raise ValueError(f"Input has undefined `axis` dimension. Input shape: {shape}")
        self.input_spec = InputSpec(ndim=rank, axes=sizes)
        if len(axes) == 1:
            params: list[int] = [sizes[axes[0]]]
        else:
            params = [sizes.get(axis, 1) or 1 for axis in range(rank)]
        kind = float32 if self._dtype in (float16, bfloat16) else self._dtype
        if self.scale:
            self.gamma = self.add_weight(
                "gamma", params, kind, self.gamma_initializer, self.gamma_regularizer, True,
                self.gamma_constraint,
            )  # fmt: skip
        if self.center:
            self.beta = self.add_weight(
                "beta", params, kind, self.beta_initializer, self.beta_regularizer, True,
                self.beta_constraint,
            )  # fmt: skip
        self.moving_mean = self.add_weight(
            "moving_mean", params, kind, self.moving_mean_initializer, trainable=False
        )
        self.moving_variance = self.add_weight(
            "moving_variance", params, kind, self.moving_variance_initializer, trainable=False
        )
        if self.renorm:
            self._renorm_mean = self.add_weight(
                "renorm_mean", params, kind, self.moving_mean_initializer, trainable=False
            )
            self._renorm_stddev = self.add_weight(
                "renorm_stddev", params, kind, self.moving_variance_initializer, trainable=False
            )
        self.built = True

    def call(self, inputs: Any, training: Any = False, **kwargs: Any) -> Tensor:
        """The normalised inputs; `training` may be a bool tensor."""
        if self.virtual_batch_size is not None:
            return self._in_groups(inputs, training)
        if self.fused:
            return self._fused(inputs, training)
        return self._composed(inputs, training)

    def _in_groups(self, inputs: Tensor, training: Any) -> Tensor:
        shape = arrays.shape(inputs)
        sizes = [-1, self.virtual_batch_size, *(shape[i] for i in range(1, len(inputs.shape)))]
        grouped = arrays.reshape(inputs, arrays.stack(sizes))
        grouped.set_shape([None, self.virtual_batch_size, *inputs.shape.as_list()[1:]])
        outputs = self._composed(grouped, training, groups=1)
        result = arrays.reshape(outputs, shape)
        result.set_shape(inputs.shape)
        return result

    def _fused(self, inputs: Tensor, training: Any) -> Tensor:
        kind = self.moving_mean.dtype.base
        channels = self.moving_mean.shape.as_list()
        gamma = self.gamma if self.scale else constants.ones(channels, kind)
        beta = self.beta if self.center else constants.zeros(channels, kind)
        layout = "NHWC" if self.axis == [3] else "NCHW"

        def trained() -> tuple[Tensor, Tensor, Tensor]:
            return normalization.fused_batch_norm(
                inputs, gamma, beta, epsilon=self.epsilon, data_format=layout
            )

        def inferred() -> tuple[Tensor, Tensor, Tensor]:
            return normalization.fused_batch_norm(
                inputs,
                gamma,
                beta,
                mean=self.moving_mean,
                variance=self.moving_variance,
                epsilon=self.epsilon,
                data_format=layout,
                is_training=False,
            )

        output, mean, variance = smart_cond(training, trained, inferred)
        if known_flag(training) is not False:
            self._move(self.moving_mean, mean, training, inputs)
            self._move(self.moving_variance, variance, training, inputs)
        result: Tensor = output
        return result

    def _composed(self, inputs: Tensor, training: Any, groups: int = 0) -> Tensor:
        rank = inputs.shape.ndims
        assert rank is not None
        axes = [axis + groups for axis in self.axis]
        reduced = [i for i in range(rank) if i not in axes and not (groups and i == 0)]
        if len(axes) == 1 and not groups and axes[0] != rank - 1:
            shape = [1] * rank
            shape[axes[0]] = int(self.moving_mean.shape.num_elements())
        else:
            shape = []

        def spread(values: Any) -> Any:
            return arrays.reshape(values, shape) if shape and values is not None else values

        scale, offset = self.gamma, self.beta
        keep = len(axes) > 1 or bool(groups)
        if known_flag(training) is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            if self.adjustment is not None:
                scale, offset = self._adjusted(inputs, training, scale, offset)
            batch = normalization.moments(inputs, reduced, keepdims=keep)
            mean = smart_cond(training, lambda: batch[0], lambda: _like(self.moving_mean, batch[0]))
            variance = smart_cond(
                training, lambda: batch[1], lambda: _like(self.moving_variance, batch[1])
            )
            new_mean, new_variance = mean, variance
            if groups:
                new_mean, new_variance = _pooled(mean, variance)
            if self.renorm:
                scale, offset, new_mean, new_variance = self._renormed(
                    new_mean, new_variance, scale, offset, training, inputs
                )
            self._move(self.moving_mean, new_mean, training, inputs)
            self._move(self.moving_variance, new_variance, training, inputs)
        kind = inputs.dtype.base
        mean, variance, offset, scale = (
            spread(_cast(each, kind)) for each in (mean, variance, offset, scale)
        )
        outputs = normalization.batch_normalization(
            inputs, mean, variance, offset, scale, self.epsilon
        )
        outputs.set_shape(inputs.shape)
        return outputs

    def _adjusted(self, inputs: Tensor, training: Any, scale: Any, offset: Any) -> tuple[Any, Any]:
        factor, shift = self.adjustment(arrays.shape(inputs))
        factor = smart_cond(training, lambda: factor, lambda: constants.ones_like(factor))
        shift = smart_cond(training, lambda: shift, lambda: constants.zeros_like(shift))
        scale = factor if scale is None else factor * scale
        offset = shift if self.beta is None else shift * (1 if self.gamma is None else self.gamma)
        return scale, offset if self.beta is None else offset + self.beta

    def _renormed(
        self, mean: Tensor, variance: Tensor, scale: Any, offset: Any, training: Any, inputs: Any
    ) -> tuple[Any, Any, Tensor, Tensor]:
        """Scale and offset with the correction, and the statistics to move the averages with."""
        stddev = elementwise.sqrt(variance + self.epsilon)
        limits = self.renorm_clipping
        kept_stddev = elementwise.maximum(self._renorm_stddev, elementwise.sqrt(
            constants.constant(self.epsilon, stddev.dtype.base)
        ))  # fmt: skip
        ratio = stddev / kept_stddev
        shift = (mean - self._renorm_mean) / kept_stddev
        if "rmax" in limits:
            ratio = elementwise.minimum(ratio, limits["rmax"])
        if "rmin" in limits:
            ratio = elementwise.maximum(ratio, limits["rmin"])
        if "dmax" in limits:
            shift = clip.clip_by_value(shift, -limits["dmax"], limits["dmax"])
        ratio = smart_cond(training, lambda: ratio, lambda: constants.ones_like(ratio))
        shift = smart_cond(training, lambda: shift, lambda: constants.zeros_like(shift))
        ratio, shift = (apply_op("StopGradient", each) for each in (ratio, shift))
        self._move(self._renorm_mean, mean, training, inputs, self.renorm_momentum)
        self._move(self._renorm_stddev, stddev, training, inputs, self.renorm_momentum)
        out_scale = ratio if scale is None else scale * ratio
        out_offset = shift if scale is None else shift * scale
        out_offset = out_offset if offset is None else out_offset + offset
        return out_scale, out_offset, mean, variance

    def _move(
        self, average: Any, value: Tensor, training: Any, inputs: Any, momentum: float | None = None
    ) -> None:
        """Lists the operation that moves an average towards the batch's value."""
        keeps = self.momentum if momentum is None else momentum
        kind = average.dtype.base
        decay = smart_cond(
            training,
            lambda: constants.constant(1.0 - keeps, kind),
            lambda: constants.constant(0.0, kind),
        )
        graph = get_default_graph()
        with graph.name_scope("AssignMovingAvg") as scope, graph.colocate_with(average):
            wanted = arrays.reshape(_cast(value, kind), average.shape.as_list())
            update = apply_op("AssignSub", average, (average - wanted) * decay, name=scope)
        self.add_update(update, inputs)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The same."""
        return TensorShape(input_shape)


def _cast(value: Any, dtype: Any) -> Any:
    if value is None or value.dtype.base is dtype:
        return value
    return elementwise.cast(value, dtype)


def _like(average: Any, batch: Tensor) -> Tensor:
    """A moving average in the shape and dtype of the batch's."""
    value = _cast(control.identity(average), batch.dtype.base)
    return arrays.broadcast_to(value, arrays.shape(batch))


def _pooled(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """The means over groups."""
    return reduction.reduce_mean(mean, 0), reduction.reduce_mean(variance, 0)


def batch_normalization(
    inputs: Any,
    axis: Any = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = Zeros,
    gamma_initializer: Any = Ones,
    moving_mean_initializer: Any = Zeros,
    moving_variance_initializer: Any = Ones,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: dict[str, Any] | None = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Any = None,
) -> Tensor:
    """A `BatchNormalization` layer applied to `inputs`; `training` may be a bool tensor.

    The operations that move the averages are in `tf.GraphKeys.UPDATE_OPS`: make the training
    operation depend on them.
    """
    tensor = convert_to_tensor(inputs)
    layer = BatchNormalization(
        axis, momentum, epsilon, center, scale, beta_initializer, gamma_initializer,
        moving_mean_initializer, moving_variance_initializer, beta_regularizer, gamma_regularizer,
        beta_constraint, gamma_constraint, renorm, renorm_clipping, renorm_momentum, fused,
        trainable, virtual_batch_size, adjustment, name, dtype=tensor.dtype.base, _reuse=reuse,
        _scope=name,
    )  # fmt: skip
    result: Tensor = layer(tensor, training=training)
    return result


BatchNorm = BatchNormalization
batch_norm = batch_normalization
