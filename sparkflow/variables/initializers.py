"""Initial values of variables: classes whose instances are called with (shape, dtype)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.random import random
from sparkflow.ops.shape import arrays, constants
from sparkflow_runtime.dtypes import DType, as_dtype, float32


@export("initializers.Initializer")
class Initializer:
    """Base of all initializers: the dtype used if none is requested."""

    def __init__(self, dtype: Any = float32) -> None:
        self.dtype = as_dtype(dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make such an initializer."""
        config = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        return {**config, "dtype": self.dtype.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """The initializer that `get_config` described."""
        return cls(**config)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """A tensor of that shape.

        Args:
            shape: Fully defined.
            dtype: The initializer's own when None.
            partition_info: Not used.
        """
        return self._make(shape, self.dtype if dtype is None else as_dtype(dtype).base)

    def _make(self, shape: Any, dtype: DType) -> Tensor:
        raise NotImplementedError(type(self).__name__)


@export(
    "zeros_initializer",
    "initializers.zeros",
    "initializers.zeros_initializer",
    "initializers.Zeros",
)
class Zeros(Initializer):
    """Zeros."""

    def _make(self, shape: Any, dtype: DType) -> Tensor:
        return constants.zeros(shape, dtype)


@export(
    "ones_initializer", "initializers.ones", "initializers.ones_initializer", "initializers.Ones"
)
class Ones(Initializer):
    """Ones."""

    def _make(self, shape: Any, dtype: DType) -> Tensor:
        return constants.ones(shape, dtype)


@export(
    "constant_initializer",
    "initializers.constant",
    "initializers.constant_initializer",
    "initializers.Constant",
)
class Constant(Initializer):
    """The same constant everywhere, or the elements of a list or array.

    Args:
        value: A number, list or array.
        dtype: The dtype used when none is asked for.
        verify_shape: Refuse a value of another shape than the variable's.
    """

    def __init__(self, value: Any = 0, dtype: Any = float32, verify_shape: bool = False) -> None:
        super().__init__(dtype)
        self.value = value
        self._verify_shape = verify_shape

    def _make(self, shape: Any, dtype: DType) -> Tensor:
        if isinstance(self.value, bool | int | float) and not self._verify_shape:
            return constants.of_one_value(shape, self.value, dtype, "Const")
        return constants.constant(self.value, dtype, shape=shape, verify_shape=self._verify_shape)


@export(
    "random_uniform_initializer",
    "initializers.random_uniform",
    "initializers.random_uniform_initializer",
    "initializers.RandomUniform",
)
class RandomUniform(Initializer):
    """Numbers from [minval, maxval), all equally likely."""

    def __init__(
        self,
        minval: Any = 0,
        maxval: Any = None,
        seed: int | None = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(dtype)
        self.minval = minval
        self.maxval = maxval
        self.seed = seed

    def _make(self, shape: Any, dtype: DType) -> Tensor:
        return random.random_uniform(shape, self.minval, self.maxval, dtype, seed=self.seed)


@export(
    "random_normal_initializer",
    "initializers.random_normal",
    "initializers.random_normal_initializer",
    "initializers.RandomNormal",
)
class RandomNormal(Initializer):
    """Numbers from a normal distribution."""

    def __init__(
        self,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        seed: int | None = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(_floating(dtype))
        self.mean = mean
        self.stddev = stddev
        self.seed = seed

    def _make(self, shape: Any, dtype: DType) -> Tensor:
        return random.random_normal(shape, self.mean, self.stddev, dtype, seed=self.seed)


@export(
    "truncated_normal_initializer",
    "initializers.truncated_normal",
    "initializers.truncated_normal_initializer",
    "initializers.TruncatedNormal",
)
class TruncatedNormal(RandomNormal):
    """Numbers from a normal distribution, none over two deviations from the mean."""

    def _make(self, shape: Any, dtype: DType) -> Tensor:
        return random.truncated_normal(shape, self.mean, self.stddev, dtype, seed=self.seed)


@export(
    "variance_scaling_initializer",
    "initializers.variance_scaling",
    "initializers.variance_scaling_initializer",
    "initializers.VarianceScaling",
)
class VarianceScaling(Initializer):
    """Random numbers whose variance is `scale` divided by the number of inputs or outputs.

    Args:
        scale: Positive.
        mode: `fan_in`, `fan_out` or `fan_avg`: what the variance is divided by.
        distribution: `normal` (truncated), `untruncated_normal` or `uniform`.
        seed: Seed of the numbers.
        dtype: The dtype used when none is asked for.

    Raises:
        ValueError: An argument outside those.
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(_floating(dtype))
        if scale <= 0.0:
            raise ValueError(f"`scale` must be positive float, got {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode}")
        distribution = distribution.lower()
        if distribution not in ("normal", "truncated_normal", "untruncated_normal", "uniform"):
            raise ValueError(f"Invalid `distribution` argument: {distribution}")
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """As for `Initializer`; a part's numbers are as large as those of the whole variable."""
        whole = shape if partition_info is None else partition_info.full_shape
        kind = self.dtype if dtype is None else as_dtype(dtype).base
        return self._scaled(shape, whole, kind)

    def _scaled(self, shape: Any, whole: Any, dtype: DType) -> Tensor:
        fan_in, fan_out = _fans([int(size) for size in whole])
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, fan)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return random.random_uniform(shape, -limit, limit, dtype, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return random.random_normal(shape, 0.0, math.sqrt(variance), dtype, seed=self.seed)
        # The standard deviation of a normal distribution cut off at two deviations.
        stddev = math.sqrt(variance) / 0.87962566103423978
        return random.truncated_normal(shape, 0.0, stddev, dtype, seed=self.seed)


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    """How many inputs and outputs a unit of a layer with weights of that shape has."""
    if not shape:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    field_size = math.prod(shape[:-2])
    return float(shape[-2] * field_size), float(shape[-1] * field_size)


@export(
    "glorot_uniform_initializer",
    "initializers.glorot_uniform",
    "initializers.glorot_uniform_initializer",
    "initializers.GlorotUniform",
)
class GlorotUniform(VarianceScaling):
    """Glorot and Bengio 2010: uniform in ±√(6 / (inputs + outputs))."""

    def __init__(self, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make such an initializer."""
        return {"seed": self.seed, "dtype": self.dtype.name}


@export(
    "glorot_normal_initializer",
    "initializers.glorot_normal",
    "initializers.glorot_normal_initializer",
    "initializers.GlorotNormal",
)
class GlorotNormal(VarianceScaling):
    """Glorot and Bengio 2010: truncated normal of variance 2 / (inputs + outputs)."""

    def __init__(self, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make such an initializer."""
        return {"seed": self.seed, "dtype": self.dtype.name}


@export("initializers.he_normal")
def he_normal(seed: int | None = None) -> VarianceScaling:
    """He et al. 2015: truncated normal of variance 2 / inputs, for relu layers."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


@export("initializers.he_uniform")
def he_uniform(seed: int | None = None) -> VarianceScaling:
    """He et al. 2015: uniform of variance 2 / inputs, for relu layers."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


@export("initializers.lecun_normal")
def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """LeCun et al. 1998: truncated normal of variance 1 / inputs."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


@export("initializers.lecun_uniform")
def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """LeCun et al. 1998: uniform of variance 1 / inputs."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


@export(
    "uniform_unit_scaling_initializer",
    "initializers.uniform_unit_scaling",
    "initializers.uniform_unit_scaling_initializer",
    "initializers.UniformUnitScaling",
)
class UniformUnitScaling(Initializer):
    """Uniform numbers that keep the size of what passes a linear layer (Sussillo and Abbott 2014).

    Args:
        factor: What the range is multiplied by.
        seed: Seed of the numbers.
        dtype: The dtype used when none is asked for.
    """

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(_floating(dtype))
        self.factor = factor
        self.seed = seed

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """As for `Initializer`; a part's range is that of the whole variable."""
        full = shape if partition_info is None else partition_info.full_shape
        size = max(math.prod(float(each) for each in list(full)[:-1]), 1.0)
        limit = math.sqrt(3 / size) * self.factor
        kind = self.dtype if dtype is None else as_dtype(dtype).base
        return random.random_uniform(shape, -limit, limit, kind, seed=self.seed)


@export(
    "orthogonal_initializer",
    "initializers.orthogonal",
    "initializers.orthogonal_initializer",
    "initializers.Orthogonal",
)
class Orthogonal(Initializer):
    """A random matrix with orthonormal rows or columns (Saxe et al. 2014).

    Shapes of more dimensions are matrices of all but the last dimension by the last.

    Args:
        gain: What the matrix is multiplied by.
        seed: Seed of the numbers.
        dtype: The dtype used when none is asked for.
    """

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(_floating(dtype))
        self.gain = gain
        self.seed = seed

    def _make(self, shape: Any, dtype: DType) -> Tensor:
        sizes = [int(each) for each in shape]
        if len(sizes) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional")
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        flat = (max(columns, rows), min(columns, rows))
        drawn = random.random_normal(flat, dtype=dtype, seed=self.seed)
        q, r = apply_op("Qr", drawn, full_matrices=False)
        diagonal = apply_op("MatrixDiagPart", r)
        q = q * apply_op("Sign", diagonal)  # makes the distribution uniform
        if rows < columns:
            q = arrays.transpose(q)
        return arrays.reshape(q, sizes) * constants.constant(self.gain, dtype)


@export("initializers.identity", "initializers.Identity")
class Identity(Initializer):
    """The identity matrix, times `gain`.

    Args:
        gain: What the matrix is multiplied by.
        dtype: The dtype used when none is asked for.
    """

    def __init__(self, gain: float = 1.0, dtype: Any = float32) -> None:
        super().__init__(_floating(dtype))
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """As for `Initializer`; a part is a part of the whole identity.

        Raises:
            ValueError: The shape is not that of a matrix.
        """
        full = list(shape if partition_info is None else partition_info.full_shape)
        if len(full) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices.")
        kind = self.dtype if dtype is None else as_dtype(dtype).base
        matrix = np.eye(int(full[0]), int(full[1])) * self.gain
        if partition_info is not None:
            top, left = partition_info.var_offset
            rows, columns = (int(each) for each in shape)
            matrix = matrix[top : top + rows, left : left + columns]
        return constants.constant(matrix.astype(kind.as_numpy_dtype))


def _floating(dtype: Any) -> DType:
    """A dtype that must be floating point."""
    kind = as_dtype(dtype).base
    if not kind.is_floating:
        raise ValueError(f"Expected floating point type, got {kind!r}.")
    return kind
