"""Batch normalisation as a layer, with moving averages for inference."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.graph.scopes import apply_op, convert_to_tensor, get_default_graph, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.layers import named
from sparkflow.layers.base import Layer
from sparkflow.layers.input_spec import InputSpec
from sparkflow.layers.training import known_flag, smart_cond
from sparkflow.ops.control import ordering as control
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.nn import normalization
from sparkflow.ops.reduction import clip, reduction
from sparkflow.ops.shape import arrays, constants
from sparkflow.variables.initializers import Ones, Zeros
from sparkflow_runtime.dtypes import bfloat16, float16, float32

_NARROW = (float16, bfloat16)


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
        renorm: Correct the batch's statistics towards the moving ones (Ioffe 2017). There are three
            more averages: `moving_stddev`, and `renorm_mean` and `renorm_stddev`, which the
            correction uses and which move with the other two.
        renorm_clipping: Bounds `rmax`, `rmin`, `dmax` of the correction.
        renorm_momentum: What stays of `renorm_mean` and `renorm_stddev` in a step.
        fused: False for many small operations. Else the fused one where it can be used: for one
            axis, 1 or the last, of 4 or 5 dimensions, and nothing of renorm, virtual batches,
            an adjustment or float64.
        trainable: Whether optimizers change `beta` and `gamma`, and averages are listed to move.
        virtual_batch_size: Normalise in groups of this many examples, which divides their number:
            example i is in group i % groups, as in TensorFlow 1. The parameters have one
            dimension more, of size 1, after the first.
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
        self.beta_initializer = named.initializer(beta_initializer)
        self.gamma_initializer = named.initializer(gamma_initializer)
        self.moving_mean_initializer = named.initializer(moving_mean_initializer)
        self.moving_variance_initializer = named.initializer(moving_variance_initializer)
        self.beta_regularizer = named.regularizer(beta_regularizer)
        self.gamma_regularizer = named.regularizer(gamma_regularizer)
        self.beta_constraint = named.constraint(beta_constraint)
        self.gamma_constraint = named.constraint(gamma_constraint)
        self.renorm = renorm
        self.renorm_clipping = dict(renorm_clipping or {})
        unknown = set(self.renorm_clipping) - {"rmax", "rmin", "dmax"}
        if unknown:
            raise ValueError(f"renorm_clipping {renorm_clipping} contains keys not in rmax, ...")
        self.renorm_momentum = renorm_momentum
        self.virtual_batch_size = virtual_batch_size
        self.adjustment = adjustment
        self.fused = fused
        self.gamma: Any = None
        self.beta: Any = None
        self.moving_mean: Any = None
        self.moving_variance: Any = None
        self.moving_stddev: Any = None
        self.renorm_mean: Any = None
        self.renorm_stddev: Any = None

    def build(self, input_shape: Any) -> None:
        """Creates `gamma`, `beta`, `moving_mean`, `moving_variance` and the variables of `renorm`.

        Raises:
            ValueError: The rank or the sizes along the axes are not known, an axis is wrong, or
                virtual batches cannot be made.
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
        self._check_virtual_batches()
        self.fused = self.fused in (None, True) and self._can_be_fused(rank)
        sizes = {axis: shape[axis].value for axis in axes}
        if None in sizes.values():
            raise ValueError(f"Input has undefined `axis` dimension. Input shape: {shape}")
        self.input_spec = InputSpec(ndim=rank, axes=sizes)
        params: list[int] = [sizes.get(axis, 1) or 0 for axis in range(rank)]
        if self.virtual_batch_size is not None:
            params.insert(1, 1)
            self.axis = [axis + 1 for axis in axes]
        elif len(axes) == 1:
            params = [params[axes[0]]]
        self._make_weights(params)
        self.built = True

    def _check_virtual_batches(self) -> None:
        if self.virtual_batch_size is None:
            return
        if self.virtual_batch_size <= 0:
            raise ValueError(
                "`virtual_batch_size` must be a positive integer that divides the true batch size "
                f"of the input tensor. Received: virtual_batch_size={self.virtual_batch_size}"
            )
        if 0 in self.axis:
            raise ValueError(
                "When using `virtual_batch_size`, the batch dimension must be 0 and thus axis "
                f"cannot include 0. Received axis={self.axis}"
            )
        if self.adjustment is not None:
            raise ValueError("When using `virtual_batch_size`, adjustment cannot be specified")

    def _can_be_fused(self, rank: int) -> bool:
        plain = not self.renorm and self.virtual_batch_size is None and self.adjustment is None
        fits = rank in (4, 5) and self.axis in ([1], [rank - 1])
        return plain and fits and self._dtype in (*_NARROW, float32)

    def _make_weights(self, params: list[int]) -> None:
        kind = float32 if self._dtype in _NARROW else self._dtype
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

        def average(name: str, initializer: Any) -> Any:
            return self.add_weight(name, params, kind, initializer, trainable=False)

        self._open_scope(None)
        assert self._scope is not None
        partitioner = self._scope.partitioner
        self._scope.set_partitioner(None)  # what moves an average writes the whole of it
        try:
            self.moving_mean = average("moving_mean", self.moving_mean_initializer)
            self.moving_variance = average("moving_variance", self.moving_variance_initializer)
            if self.renorm:
                stddev = _root_of(self.moving_variance_initializer)
                self.moving_stddev = average("moving_stddev", stddev)
                self.renorm_mean = average("renorm_mean", self.moving_mean_initializer)
                self.renorm_stddev = average("renorm_stddev", stddev)
        finally:
            self._scope.set_partitioner(partitioner)

    def call(self, inputs: Any, training: Any = False, **kwargs: Any) -> Tensor:
        """The normalised inputs; `training` may be a bool tensor."""
        if self.fused:
            return self._fused(inputs, training)
        outputs = inputs
        if self.virtual_batch_size is not None:
            sizes = arrays.concat([[self.virtual_batch_size, -1], arrays.shape(inputs)[1:]], 0)
            outputs = arrays.reshape(inputs, sizes)
            outputs.set_shape([self.virtual_batch_size, None, *inputs.shape[1:]])
        outputs = self._composed(outputs, training, inputs)
        if self.virtual_batch_size is not None:
            outputs = arrays.reshape(outputs, arrays.shape(inputs))
        outputs.set_shape(inputs.shape)
        return outputs

    def _fused(self, inputs: Tensor, training: Any) -> Tensor:
        kind = self.moving_mean.dtype.base
        channels = self.moving_mean.shape.as_list()
        gamma = self.gamma if self.scale else constants.ones(channels, kind)
        beta = self.beta if self.center else constants.zeros(channels, kind)
        layouts = {4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}[len(inputs.shape)]
        layout = layouts[self.axis != [1]]

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
            self.add_update(self._move(self.moving_mean, mean, training), inputs)
            self.add_update(self._move(self.moving_variance, variance, training), inputs)
        result: Tensor = output
        return result

    def _composed(self, given: Tensor, training: Any, source: Tensor) -> Tensor:
        """By operations on whole tensors, in float32 where the inputs are narrower."""
        param_type = self.moving_mean.dtype.base
        inputs = elementwise.cast(given, float32) if given.dtype.base in _NARROW else given
        rank = len(inputs.shape)
        groups = self.virtual_batch_size is not None
        reduced = [i for i in range(rank) if i not in self.axis and not (groups and i == 1)]

        def spread(values: Any) -> Any:
            """A vector of channels along their dimension, where that is not the last."""
            if values is None or len(values.shape) == rank or self.axis == [rank - 1]:
                return values
            sizes = [1] * rank
            sizes[self.axis[0]] = -1
            return arrays.reshape(values, sizes)

        scale, offset = spread(self.gamma), spread(self.beta)
        if known_flag(training) is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            if self.adjustment is not None:
                adjusted = self._adjusted(inputs, training)
                scale, offset = _composed_with(*adjusted, scale, offset)
            keeps = groups or len(self.axis) > 1
            batch = normalization.moments(_cast(inputs, param_type), reduced, keepdims=keeps)
            mean, variance = smart_cond(
                training,
                lambda: batch,
                lambda: (
                    control.identity(self.moving_mean),
                    control.identity(self.moving_variance),
                ),
            )
            new_mean, new_variance = mean, variance
            if groups:
                new_mean, new_variance = (
                    reduction.reduce_mean(each, axis=1, keepdims=True) for each in (mean, variance)
                )
            if self.renorm:
                ratio, shift, new_mean, new_variance = self._renormed(
                    new_mean, new_variance, training
                )
                scale, offset = _composed_with(spread(ratio), spread(shift), scale, offset)
            self.add_update(self._move(self.moving_mean, new_mean, training), source)
            self.add_update(self._moved_variance(new_variance, training), source)
        kind = inputs.dtype.base
        outputs = normalization.batch_normalization(
            inputs,
            spread(_cast(mean, kind)),
            spread(_cast(variance, kind)),
            _cast(offset, kind),
            _cast(scale, kind),
            self.epsilon,
        )
        outputs.set_shape(inputs.shape)
        result: Tensor = _cast(outputs, given.dtype.base)
        return result

    def _adjusted(self, inputs: Tensor, training: Any) -> tuple[Tensor, Tensor]:
        """The scale and the offset of `adjustment` in training, 1 and 0 else."""
        factor, shift = self.adjustment(arrays.shape(inputs))
        factor = smart_cond(training, lambda: factor, lambda: constants.ones_like(factor))
        shift = smart_cond(training, lambda: shift, lambda: constants.zeros_like(shift))
        return factor, shift

    def _renormed(
        self, mean: Tensor, variance: Tensor, training: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The correction r and d, and the statistics to move the other averages with.

        Whoever moves those moves `renorm_mean` and `renorm_stddev` too, after r and d are known.
        """
        stddev = elementwise.sqrt(variance + self.epsilon)
        least = elementwise.sqrt(constants.constant(self.epsilon, stddev.dtype.base))
        kept_stddev = elementwise.maximum(self.renorm_stddev, least)
        ratio = stddev / kept_stddev
        shift = (mean - self.renorm_mean) / kept_stddev
        with get_default_graph().control_dependencies([ratio, shift]):
            moves = [
                self._move(self.renorm_mean, mean, training, self.renorm_momentum),
                self._move(self.renorm_stddev, stddev, training, self.renorm_momentum),
            ]
        limits = self.renorm_clipping
        if limits.get("rmin") is not None:
            ratio = elementwise.maximum(ratio, limits["rmin"])
        if limits.get("rmax") is not None:
            ratio = elementwise.minimum(ratio, limits["rmax"])
        if limits.get("dmax") is not None:
            shift = clip.clip_by_value(shift, -limits["dmax"], limits["dmax"])
        ratio = smart_cond(training, lambda: ratio, lambda: constants.ones_like(ratio))
        shift = smart_cond(training, lambda: shift, lambda: constants.zeros_like(shift))
        ratio = apply_op("StopGradient", ratio, name="renorm_r")
        shift = apply_op("StopGradient", shift, name="renorm_d")
        with get_default_graph().control_dependencies(moves):
            return ratio, shift, control.identity(mean), control.identity(variance)

    def _moved_variance(self, variance: Tensor, training: Any) -> Any:
        """What moves `moving_variance`; with renorm as the square of `moving_stddev`."""
        if not self.renorm:
            return self._move(self.moving_variance, variance, training)

        def moved() -> Tensor:
            stddev = elementwise.sqrt(variance + self.epsilon)
            moving = self._move(self.moving_stddev, stddev, True)
            square = apply_op("Relu", moving * moving - self.epsilon)
            with get_default_graph().name_scope("AssignNewValue") as scope:
                return output_of("Assign", self.moving_variance, square, name=scope)

        return smart_cond(training, moved, lambda: control.identity(self.moving_variance))

    def _move(
        self, average: Any, value: Tensor, training: Any, momentum: float | None = None
    ) -> Tensor:
        """Moves an average towards the batch's value."""
        keeps = self.momentum if momentum is None else momentum
        kind = average.dtype.base

        def decay() -> Tensor:
            return constants.constant(1.0 - keeps, kind)

        factor = smart_cond(training, decay, lambda: constants.constant(0.0, kind))
        graph = get_default_graph()
        with graph.name_scope("AssignMovingAvg") as scope, graph.colocate_with(average):
            change = (average - _cast(value, kind)) * factor
            return output_of("AssignSub", average, change, name=scope)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The same."""
        return TensorShape(input_shape)


def _cast(value: Any, dtype: Any) -> Any:
    if value is None or value.dtype.base is dtype:
        return value
    return elementwise.cast(value, dtype)


def _composed_with(scale: Any, offset: Any, then: Any, then_add: Any) -> tuple[Any, Any]:
    """The scale and offset of (x · scale + offset) · then + then_add, either of these or None."""
    if then is not None:
        scale, offset = scale * then, offset * then
    return scale, offset if then_add is None else offset + then_add


def _root_of(initializer: Any) -> Any:
    """An initializer with the square roots of another's values."""
    if not callable(initializer):
        return np.sqrt(initializer)
    made = initializer() if isinstance(initializer, type) else initializer
    return lambda shape, dtype=None, partition_info=None: elementwise.sqrt(made(shape, dtype=dtype))


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
