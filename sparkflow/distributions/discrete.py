"""Distributions of classes, counts and shares: Bernoulli, Categorical, Multinomial, Dirichlet."""

from __future__ import annotations

import math
from typing import Any

from sparkflow.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    RegisterKL,
    parameter,
)
from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import cast, exp, log, log1p, log_sigmoid, sigmoid
from sparkflow.ops.elementwise.special import digamma, lgamma
from sparkflow.ops.random.random import multinomial, random_gamma, random_uniform
from sparkflow.ops.reduction.reduction import argmax, lbeta, reduce_logsumexp, reduce_sum
from sparkflow_runtime.dtypes import as_dtype, float32, int32


def _one_of(logits: Any, probs: Any) -> None:
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")


class Bernoulli(Distribution):
    """1 with probability `probs`, the sigmoid of `logits`, else 0."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        parameters = dict(locals())
        _one_of(logits, probs)
        if logits is None:
            self.probs = parameter(probs, "probs")
            self.logits: Tensor = log(self.probs) - log1p(-self.probs)
        else:
            self.logits = parameter(logits, "logits")
            self.probs = sigmoid(self.logits)
        kind = as_dtype(dtype)
        super().__init__(kind, parameters, self.probs, (), NOT_REPARAMETERIZED, name)

    def _value(self, value: Any) -> Tensor:
        return cast(convert_to_tensor(value, name="event"), self.logits.dtype.base)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        kind = self.probs.dtype.base
        drawn = random_uniform(self._full_shape(prefix), dtype=kind, seed=seed)
        return cast(drawn < self.probs, self.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        return value * self.logits + log_sigmoid(-self.logits)

    def entropy(self, name: str = "entropy") -> Tensor:
        """Of both outcomes."""
        softplus = apply_op("Softplus", -self.logits)
        result: Tensor = -self.logits * (self.probs - 1.0) + softplus
        return result

    def mean(self, name: str = "mean") -> Tensor:
        """`probs`."""
        return output_of("Identity", self.probs)

    def variance(self, name: str = "variance") -> Tensor:
        """`probs (1 - probs)`."""
        return self.probs * (1.0 - self.probs)

    def mode(self, name: str = "mode") -> Tensor:
        """1 where `probs` is above one half."""
        return cast(self.probs > 0.5, self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _kl_bernoulli(a: Bernoulli, b: Bernoulli) -> Tensor:
    one = a.probs * (log_sigmoid(a.logits) - log_sigmoid(b.logits))
    two = (1.0 - a.probs) * (log_sigmoid(-a.logits) - log_sigmoid(-b.logits))
    return one + two


class Categorical(Distribution):
    """Class k with probability `probs[..., k]`, the softmax of `logits`."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        parameters = dict(locals())
        _one_of(logits, probs)
        if logits is None:
            self.probs = parameter(probs, "probs")
            self.logits = log(self.probs)
        else:
            self.logits = parameter(logits, "logits")
            self.probs = apply_op("Softmax", self.logits)
        kind = as_dtype(dtype)
        batch = self.probs[..., 0]
        super().__init__(kind, parameters, batch, (), NOT_REPARAMETERIZED, name)

    @property
    def event_size(self) -> Tensor:
        """The number of classes."""
        result: Tensor = apply_op("Shape", self.logits)[-1]
        return result

    def _log_probs(self) -> Tensor:
        return self.logits - reduce_logsumexp(self.logits, -1, keepdims=True)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        rows = apply_op("Reshape", self.logits, apply_op("Pack", [-1, self.event_size]))
        count = apply_op("Prod", prefix, 0)
        drawn = apply_op("Transpose", multinomial(rows, count, seed), [1, 0])
        return cast(apply_op("Reshape", drawn, self._full_shape(prefix)), self.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        classes = apply_op("OneHot", value, self.event_size, 1.0, 0.0, T=float32)
        chosen = cast(classes, self.logits.dtype.base)
        log_probs = self._log_probs()
        zero = apply_op("ZerosLike", chosen * log_probs)
        terms = apply_op("SelectV2", chosen > 0.5, log_probs + zero, zero)
        return reduce_sum(terms, -1)

    def entropy(self, name: str = "entropy") -> Tensor:
        """Over the classes."""
        log_probs = self._log_probs()
        return -reduce_sum(apply_op("MulNoNan", log_probs, exp(log_probs)), -1)

    def mode(self, name: str = "mode") -> Tensor:
        """The most probable class."""
        return cast(argmax(self.logits, -1), self.dtype)


@RegisterKL(Categorical, Categorical)
def _kl_categorical(a: Categorical, b: Categorical) -> Tensor:
    first, second = a._log_probs(), b._log_probs()
    return reduce_sum(exp(first) * (first - second), -1)


class Multinomial(Distribution):
    """How often each class is met in `total_count` independent draws."""

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        parameters = dict(locals())
        _one_of(logits, probs)
        if logits is None:
            self.probs = parameter(probs, "probs")
            self.logits = log(self.probs)
        else:
            self.logits = parameter(logits, "logits")
            self.probs = apply_op("Softmax", self.logits)
        kind = self.probs.dtype.base
        self.total_count = convert_to_tensor(total_count, kind, "total_count")
        batch = self.probs[..., 0] * 0.0 + self.total_count
        super().__init__(kind, parameters, batch, self.probs, NOT_REPARAMETERIZED, name)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        if self.total_count._shape != ():
            raise NotImplementedError("Samples need one total_count for the whole batch")
        classes = apply_op("Shape", self.logits)[-1]
        rows = apply_op("Reshape", self.logits, apply_op("Pack", [-1, classes]))
        count = apply_op("Prod", prefix, 0)
        total = cast(self.total_count, int32)
        drawn = multinomial(rows, count * total, seed)
        batch = apply_op("Shape", rows)[:1]
        split = apply_op("ConcatV2", [batch, apply_op("Pack", [count, total])], 0)
        one_hot = apply_op("OneHot", apply_op("Reshape", drawn, split), classes, 1.0, 0.0)
        counts = apply_op("Transpose", reduce_sum(one_hot, -2), [1, 0, 2])
        shape = apply_op("ConcatV2", [self._full_shape(prefix), apply_op("Pack", [classes])], 0)
        return cast(apply_op("Reshape", counts, shape), self.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        log_probs = apply_op("LogSoftmax", self.logits)
        chosen = reduce_sum(apply_op("MulNoNan", log_probs, value), -1)
        ways = lgamma(self.total_count + 1.0) - reduce_sum(lgamma(value + 1.0), -1)
        return chosen + ways

    def _totals(self) -> Tensor:
        return output_of("ExpandDims", self._batch, -1)

    def mean(self, name: str = "mean") -> Tensor:
        """`total_count probs`."""
        return self.probs * self._totals()

    def variance(self, name: str = "variance") -> Tensor:
        """`total_count probs (1 - probs)`."""
        return self.probs * (1.0 - self.probs) * self._totals()


class Dirichlet(Distribution):
    """Shares that sum to 1."""

    def __init__(
        self,
        concentration: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Dirichlet",
    ) -> None:
        parameters = dict(locals())
        self.concentration = parameter(concentration, "concentration")
        self.total_concentration = reduce_sum(self.concentration, -1)
        batch, dtype = self.total_concentration, self.concentration.dtype.base
        event = self.concentration
        super().__init__(dtype, parameters, batch, event, FULLY_REPARAMETERIZED, name)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        drawn = random_gamma(prefix, self.concentration, None, self.dtype, seed)
        return drawn / reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, value: Tensor) -> Tensor:
        above = reduce_sum(apply_op("Xlogy", self.concentration - 1.0, value), -1)
        return above - lbeta(self.concentration)

    def _totals(self) -> Tensor:
        return output_of("ExpandDims", self.total_concentration, -1)

    def entropy(self, name: str = "entropy") -> Tensor:
        """In closed form."""
        classes = cast(apply_op("Shape", self.concentration)[-1], self.dtype)
        total = self.total_concentration
        parts = reduce_sum((self.concentration - 1.0) * digamma(self.concentration), -1)
        return lbeta(self.concentration) + (total - classes) * digamma(total) - parts

    def mean(self, name: str = "mean") -> Tensor:
        """`concentration / total`."""
        return self.concentration / self._totals()

    def variance(self, name: str = "variance") -> Tensor:
        """`mean (1 - mean) / (1 + total)`."""
        mean = self.mean()
        return mean * (1.0 - mean) / (1.0 + self._totals())

    def mode(self, name: str = "mode") -> Tensor:
        """`(concentration - 1) / (total - classes)`; nan where a concentration is at most 1."""
        classes = cast(apply_op("Shape", self.concentration)[-1], self.dtype)
        found = (self.concentration - 1.0) / (self._totals() - classes)
        above = apply_op("All", self.concentration > 1.0, -1, keep_dims=True)
        nan = apply_op("ZerosLike", found) + math.nan
        return output_of("SelectV2", above, found, nan)


@RegisterKL(Dirichlet, Dirichlet)
def _kl_dirichlet(a: Dirichlet, b: Dirichlet) -> Tensor:
    difference = a.concentration - b.concentration
    digammas = digamma(a.concentration) - digamma(a._totals())
    norms = lbeta(b.concentration) - lbeta(a.concentration)
    return reduce_sum(difference * digammas, -1) + norms
