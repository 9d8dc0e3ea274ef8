"""`Distribution`: what all distributions share; densities and moments are given by subclasses.

Batches of distributions have parameters with axes. `sample(n)` puts n in front of the batch's axes
and those of one event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, get_default_graph, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import exp, log, log1p, sqrt, square
from sparkflow_runtime.dtypes import DType, int32


class ReparameterizationType:
    """Whether gradients flow through samples to the parameters; compared by identity."""

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")

_KL: dict[tuple[type, type], Callable[..., Tensor]] = {}


class RegisterKL:
    """Decorator: makes a function the divergence of two classes of distributions.

    Args:
        dist_cls_a: The class of the first.
        dist_cls_b: The class of the second.
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Enters the function.

        Raises:
            TypeError: It cannot be called.
            ValueError: There is one for these classes.
        """
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _KL:
            first, second = self._key
            raise ValueError(
                f"KL({first.__name__} || {second.__name__}) has already been registered to: "
                f"{_KL[self._key]}"
            )
        _KL[self._key] = kl_fn
        return kl_fn


def kl_divergence(
    distribution_a: Distribution,
    distribution_b: Distribution,
    allow_nan_stats: bool = True,
    name: str | None = None,
) -> Tensor:
    """The Kullback-Leibler divergence KL(a || b), one number per batch member.

    Raises:
        NotImplementedError: There is no formula for these classes.
    """
    for first in type(distribution_a).__mro__:
        for second in type(distribution_b).__mro__:
            if (first, second) in _KL:
                with get_default_graph().name_scope(name or "KullbackLeibler"):
                    return _KL[first, second](distribution_a, distribution_b)
    raise NotImplementedError(
        f"No KL(distribution_a || distribution_b) registered for distribution_a type "
        f"{type(distribution_a).__name__} and distribution_b type {type(distribution_b).__name__}"
    )


class Distribution:
    """A distribution, or a batch of them.

    Args:
        dtype: The dtype of samples.
        parameters: The arguments of the constructor, by name.
        batch: A tensor of the batch's shape.
        event: The shape of one event.
        reparameterization_type: Whether gradients flow through samples.
        name: Its scope's name.
    """

    def __init__(
        self,
        dtype: DType,
        parameters: dict[str, Any],
        batch: Tensor,
        event: Any,
        reparameterization_type: ReparameterizationType,
        name: str,
    ) -> None:
        self._dtype = dtype
        self._parameters = {
            key: value
            for key, value in parameters.items()
            if key != "self" and not key.startswith("__")
        }
        self._batch = batch
        self._event = event
        self._reparameterization_type = reparameterization_type
        with get_default_graph().name_scope(name) as scope:
            self._name = scope

    @contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        graph = get_default_graph()
        with graph.name_scope(self._name), graph.name_scope(name):
            yield

    @property
    def dtype(self) -> DType:
        """The dtype of samples."""
        return self._dtype

    @property
    def name(self) -> str:
        """Its scope, which ends in a slash."""
        return self._name

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments it was made with."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """Whether gradients flow through samples."""
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        """Whether undefined moments are nan, else an error."""
        return bool(self._parameters.get("allow_nan_stats", True))

    @property
    def validate_args(self) -> bool:
        """Whether parameters are checked when they are used."""
        return bool(self._parameters.get("validate_args", False))

    @property
    def batch_shape(self) -> TensorShape:
        """The static shape of the batch."""
        return self._batch.shape

    @property
    def event_shape(self) -> TensorShape:
        """The static shape of one event."""
        if isinstance(self._event, Tensor):
            return TensorShape(self._event.shape[-1:])
        return TensorShape(self._event)

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The shape of the batch."""
        return output_of("Shape", self._batch, name=name)

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event."""
        if isinstance(self._event, Tensor):
            result: Tensor = apply_op("Shape", self._event)[-1:]
            return result
        return convert_to_tensor(np.array(self._event, np.int32), name=name)

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        """Whether an event is a scalar."""
        return convert_to_tensor(self.event_shape.ndims == 0, name=name)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        """Whether it is one distribution."""
        rank = apply_op("Rank", self._batch)
        return output_of("Equal", rank, 0, name=name)

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """Another of the same class, with other parameters where given."""
        return type(self)(**{**self._parameters, **override_parameters_kwargs})

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Random events: [..sample_shape, ..batch_shape, ..event_shape]."""
        with self._scope(name):
            shape = convert_to_tensor(sample_shape, int32, "sample_shape")
            sizes = shape._shape
            prefix = apply_op("Reshape", shape, [-1]) if sizes != (0,) else shape
            drawn = self._sample(prefix, seed)
            known = (
                TensorShape([int(n) for n in np.ravel(sample_shape)])
                if not isinstance(sample_shape, Symbolic)
                else TensorShape(None)
            )
            if drawn.shape.ndims is None or not drawn.shape.is_fully_defined():
                drawn.set_shape(known.concatenate(self.batch_shape).concatenate(self.event_shape))
            return drawn

    def _full_shape(self, prefix: Tensor) -> Tensor:
        """What `sample` is to return, less the axes of an event."""
        return output_of("ConcatV2", [prefix, apply_op("Shape", self._batch)], 0)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        raise NotImplementedError(f"sample is not implemented: {type(self).__name__}")

    def _log_prob(self, value: Tensor) -> Tensor:
        raise NotImplementedError(f"log_prob is not implemented: {type(self).__name__}")

    def _cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError(f"cdf is not implemented: {type(self).__name__}")

    def _value(self, value: Any) -> Tensor:
        return convert_to_tensor(value, self._dtype, "value")

    def log_prob(self, value: Any, name: str = "log_prob") -> Tensor:
        """The logarithm of the density, or of the probability, at `value`."""
        with self._scope(name):
            return self._log_prob(self._value(value))

    def prob(self, value: Any, name: str = "prob") -> Tensor:
        """The density, or the probability, at `value`."""
        with self._scope(name):
            return exp(self._log_prob(self._value(value)))

    def cdf(self, value: Any, name: str = "cdf") -> Tensor:
        """The probability of at most `value`."""
        with self._scope(name):
            return self._cdf(self._value(value))

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Tensor:
        """Its logarithm."""
        with self._scope(name):
            return self._log_cdf(self._value(value))

    def _log_cdf(self, value: Tensor) -> Tensor:
        return log(self._cdf(value))

    def survival_function(self, value: Any, name: str = "survival_function") -> Tensor:
        """The probability of more than `value`."""
        with self._scope(name):
            return 1.0 - self._cdf(self._value(value))

    def log_survival_function(self, value: Any, name: str = "log_survival_function") -> Tensor:
        """Its logarithm."""
        with self._scope(name):
            return log1p(-self._cdf(self._value(value)))

    def quantile(self, value: Any, name: str = "quantile") -> Tensor:
        """The number that is not exceeded with probability `value`."""
        with self._scope(name):
            return self._quantile(self._value(value))

    def _quantile(self, value: Tensor) -> Tensor:
        raise NotImplementedError(f"quantile is not implemented: {type(self).__name__}")

    def entropy(self, name: str = "entropy") -> Tensor:
        """The entropy in nats."""
        raise NotImplementedError(f"entropy is not implemented: {type(self).__name__}")

    def mean(self, name: str = "mean") -> Tensor:
        """The mean."""
        raise NotImplementedError(f"mean is not implemented: {type(self).__name__}")

    def mode(self, name: str = "mode") -> Tensor:
        """The most probable event."""
        raise NotImplementedError(f"mode is not implemented: {type(self).__name__}")

    def variance(self, name: str = "variance") -> Tensor:
        """The variance."""
        return square(self.stddev(name))

    def stddev(self, name: str = "stddev") -> Tensor:
        """The standard deviation."""
        return sqrt(self.variance(name))

    def covariance(self, name: str = "covariance") -> Tensor:
        """The covariance matrix of vectors."""
        raise NotImplementedError(f"covariance is not implemented: {type(self).__name__}")

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Tensor:
        """The divergence KL(self || other)."""
        return kl_divergence(self, other, self.allow_nan_stats, name)

    def cross_entropy(self, other: Distribution, name: str = "cross_entropy") -> Tensor:
        """The mean of -log of the density of `other` under this one."""
        with self._scope(name):
            return self.entropy() + kl_divergence(self, other)

    def __repr__(self) -> str:
        return (
            f"<tf.distributions.{type(self).__name__} '{self._name}' "
            f"batch_shape={self.batch_shape} event_shape={self.event_shape} "
            f"dtype={self._dtype.name}>"
        )


def parameter(value: Any, name: str, like: Any = None) -> Tensor:
    """A parameter as a tensor, of the dtype of another one where that is a tensor already."""
    dtype = like._to_tensor().dtype.base if isinstance(like, Symbolic) else None
    return convert_to_tensor(value, dtype, name)


def filled_like(batch: Tensor, value: Any) -> Tensor:
    """One number for every member of a batch."""
    result: Tensor = apply_op("ZerosLike", batch) + value
    return result
