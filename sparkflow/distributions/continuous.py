"""Distributions of real numbers: Normal, Uniform, Laplace, StudentT, Gamma, Exponential, Beta."""

from __future__ import annotations

import math
from typing import Any

from sparkflow.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    Distribution,
    RegisterKL,
    filled_like,
    parameter,
)
from sparkflow.graph.scopes import apply_op, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import abs, expm1, log, log1p, sign, sqrt, square
from sparkflow.ops.elementwise.special import betainc, digamma, erfc, igamma, lgamma, ndtri
from sparkflow.ops.random.random import random_gamma, random_normal, random_uniform

_LOG_2PI = math.log(2 * math.pi)


def _where(condition: Tensor, chosen: Any, other: Any) -> Tensor:
    return output_of("SelectV2", condition, chosen, other)


def _nan_or(condition: Tensor, value: Tensor) -> Tensor:
    """The value where the condition holds, elsewhere nan: a moment that does not exist."""
    return _where(condition, value, filled_like(value, math.nan))


class Normal(Distribution):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        parameters = dict(locals())
        self.loc = parameter(loc, "loc", scale)
        self.scale = parameter(scale, "scale", self.loc)
        batch = self.loc + apply_op("ZerosLike", self.scale)
        dtype = self.loc.dtype.base
        super().__init__(dtype, parameters, batch, (), FULLY_REPARAMETERIZED, name)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        drawn = random_normal(self._full_shape(prefix), dtype=self.dtype, seed=seed)
        return drawn * self.scale + self.loc

    def _standard(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def _log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * square(self._standard(value)) - 0.5 * _LOG_2PI - log(self.scale)

    def _cdf(self, value: Tensor) -> Tensor:
        return 0.5 * erfc(self._standard(value) * -math.sqrt(0.5))

    def _quantile(self, value: Tensor) -> Tensor:
        return ndtri(value) * self.scale + self.loc

    def entropy(self, name: str = "entropy") -> Tensor:
        """Half of 1 + log(2 π) and log of the scale."""
        return filled_like(self._batch, 0.5 * (1 + _LOG_2PI)) + log(self.scale)

    def mean(self, name: str = "mean") -> Tensor:
        """`loc`."""
        return self._batch

    def mode(self, name: str = "mode") -> Tensor:
        """`loc`."""
        return self._batch

    def stddev(self, name: str = "stddev") -> Tensor:
        """`scale`."""
        result: Tensor = apply_op("ZerosLike", self._batch) + self.scale
        return result


@RegisterKL(Normal, Normal)
def _kl_normal(a: Normal, b: Normal) -> Tensor:
    ratio = square(a.scale / b.scale)
    distance = square(a.loc - b.loc) / (2.0 * square(b.scale))
    return distance + 0.5 * (ratio - 1.0 - log(ratio))


class Uniform(Distribution):
    """All numbers in [low, high) equally likely."""

    def __init__(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        parameters = dict(locals())
        self.low = parameter(low, "low", high)
        self.high = parameter(high, "high", self.low)
        batch = self.low + apply_op("ZerosLike", self.high)
        dtype = self.low.dtype.base
        super().__init__(dtype, parameters, batch, (), FULLY_REPARAMETERIZED, name)

    def range(self, name: str = "range") -> Tensor:
        """The width."""
        return self.high - self.low

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        drawn = random_uniform(self._full_shape(prefix), dtype=self.dtype, seed=seed)
        return self.low + self.range() * drawn

    def _log_prob(self, value: Tensor) -> Tensor:
        inside = apply_op("LogicalAnd", value >= self.low, value < self.high)
        level = value * 0.0 - log(self.range())
        return _where(inside, level, filled_like(level, -math.inf))

    def _cdf(self, value: Tensor) -> Tensor:
        share = (value - self.low) / self.range()
        return output_of("Minimum", apply_op("Maximum", share, 0.0), 1.0)

    def _quantile(self, value: Tensor) -> Tensor:
        return self.low + self.range() * value

    def entropy(self, name: str = "entropy") -> Tensor:
        """Log of the width."""
        return log(self.range())

    def mean(self, name: str = "mean") -> Tensor:
        """The middle."""
        return (self.low + self.high) / 2.0

    def variance(self, name: str = "variance") -> Tensor:
        """The square of the width over 12."""
        return square(self.range()) / 12.0

    def stddev(self, name: str = "stddev") -> Tensor:
        """The width over the root of 12."""
        return self.range() / math.sqrt(12.0)


class Laplace(Distribution):
    """The density falls off exponentially on both sides of `loc`."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:
        parameters = dict(locals())
        self.loc = parameter(loc, "loc", scale)
        self.scale = parameter(scale, "scale", self.loc)
        batch = self.loc + apply_op("ZerosLike", self.scale)
        dtype = self.loc.dtype.base
        super().__init__(dtype, parameters, batch, (), FULLY_REPARAMETERIZED, name)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        shape = self._full_shape(prefix)
        least = -1.0 + float(self.dtype.as_numpy_dtype(2) ** -20)
        drawn = random_uniform(shape, least, 1.0, self.dtype, seed)
        return self.loc - self.scale * sign(drawn) * log1p(-abs(drawn))

    def _standard(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def _log_prob(self, value: Tensor) -> Tensor:
        return -abs(self._standard(value)) - math.log(2.0) - log(self.scale)

    def _cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return 0.5 - 0.5 * sign(z) * expm1(-abs(z))

    def entropy(self, name: str = "entropy") -> Tensor:
        """1 + log 2 + log of the scale."""
        return filled_like(self._batch, 1.0 + math.log(2.0)) + log(self.scale)

    def mean(self, name: str = "mean") -> Tensor:
        """`loc`."""
        return self._batch

    def mode(self, name: str = "mode") -> Tensor:
        """`loc`."""
        return self._batch

    def stddev(self, name: str = "stddev") -> Tensor:
        """`scale` times the root of 2."""
        return filled_like(self._batch, 0.0) * 0.0 + math.sqrt(2.0) * self.scale


class StudentT(Distribution):
    """Student's t of `df` degrees of freedom, shifted by `loc` and stretched by `scale`."""

    def __init__(
        self,
        df: Any,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        parameters = dict(locals())
        self.df = parameter(df, "df", loc)
        self.loc = parameter(loc, "loc", self.df)
        self.scale = parameter(scale, "scale", self.df)
        batch = self.df + apply_op("ZerosLike", self.loc) + apply_op("ZerosLike", self.scale)
        dtype = self.df.dtype.base
        super().__init__(dtype, parameters, batch, (), FULLY_REPARAMETERIZED, name)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        normal = random_normal(self._full_shape(prefix), dtype=self.dtype, seed=seed)
        other = None if seed is None else seed + 1
        half = 0.5 * self._batch
        chi_square = random_gamma(prefix, half, 0.5, self.dtype, other)
        result: Tensor = normal * apply_op("Rsqrt", chi_square / self.df) * self.scale + self.loc
        return result

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / self.scale
        above = -0.5 * (self.df + 1.0) * log1p(square(y) / self.df)
        norm = log(abs(self.scale)) + 0.5 * log(self.df) + 0.5 * math.log(math.pi)
        norm = norm + lgamma(0.5 * self.df) - lgamma(0.5 * (self.df + 1.0))
        return above - norm

    def _cdf(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / abs(self.scale)
        x = self.df / (square(y) + self.df)
        zeros = apply_op("ZerosLike", x)
        tail = 0.5 * betainc(0.5 * self.df + zeros, zeros + 0.5, x)
        return _where(y < 0.0, tail, 1.0 - tail)

    def entropy(self, name: str = "entropy") -> Tensor:
        """In closed form."""
        half, more = 0.5 * self._batch, 0.5 * (self._batch + 1.0)
        beta = lgamma(half) + lgamma(filled_like(half, 0.0) * 0.0 + 0.5) - lgamma(more)
        core = log(abs(self.scale)) + 0.5 * log(self._batch) + beta
        return core + more * (digamma(more) - digamma(half))

    def mean(self, name: str = "mean") -> Tensor:
        """`loc`; nan for at most one degree of freedom."""
        center = self.loc + apply_op("ZerosLike", self._batch)
        return _nan_or(self._batch > 1.0, center)

    def mode(self, name: str = "mode") -> Tensor:
        """`loc`."""
        result: Tensor = self.loc + apply_op("ZerosLike", self._batch)
        return result

    def variance(self, name: str = "variance") -> Tensor:
        """Infinite for at most two degrees of freedom, nan for at most one."""
        df = self._batch
        above = df > 2.0
        finite = square(self.scale) * df / _where(above, df - 2.0, apply_op("OnesLike", df))
        found = _where(above, finite, filled_like(finite, math.inf))
        return _nan_or(df > 1.0, found)


class Gamma(Distribution):
    """The gamma distribution of shape `concentration` and `rate`."""

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        parameters = dict(locals())
        self._define(concentration, rate, parameters, name)

    def _define(self, concentration: Any, rate: Any, parameters: dict[str, Any], name: str) -> None:
        self.concentration = parameter(concentration, "concentration", rate)
        self.rate = parameter(rate, "rate", self.concentration)
        batch = self.concentration + apply_op("ZerosLike", self.rate)
        dtype = batch.dtype.base
        Distribution.__init__(self, dtype, parameters, batch, (), FULLY_REPARAMETERIZED, name)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        return random_gamma(prefix, self.concentration, self.rate, self.dtype, seed)

    def _log_prob(self, value: Tensor) -> Tensor:
        above = apply_op("Xlogy", self.concentration - 1.0, value) - self.rate * value
        norm = lgamma(self.concentration) - self.concentration * log(self.rate)
        result: Tensor = above - norm
        return result

    def _cdf(self, value: Tensor) -> Tensor:
        return igamma(self.concentration, self.rate * value)

    def entropy(self, name: str = "entropy") -> Tensor:
        """In closed form."""
        form = self.concentration
        core = form - log(self.rate) + lgamma(form)
        return core + (1.0 - form) * digamma(form)

    def mean(self, name: str = "mean") -> Tensor:
        """`concentration / rate`."""
        return self.concentration / self.rate

    def variance(self, name: str = "variance") -> Tensor:
        """`concentration / rate²`."""
        return self.concentration / square(self.rate)

    def stddev(self, name: str = "stddev") -> Tensor:
        """`sqrt(concentration) / rate`."""
        return sqrt(self.concentration) / self.rate

    def mode(self, name: str = "mode") -> Tensor:
        """`(concentration - 1) / rate`; nan for a concentration of at most 1."""
        found = (self.concentration - 1.0) / self.rate
        return _nan_or(self._batch > 1.0, found)


@RegisterKL(Gamma, Gamma)
def _kl_gamma(a: Gamma, b: Gamma) -> Tensor:
    form = (a.concentration - b.concentration) * digamma(a.concentration)
    normals = lgamma(b.concentration) - lgamma(a.concentration)
    rates = b.concentration * (log(a.rate) - log(b.rate))
    return form + normals + rates + a.concentration * (b.rate / a.rate - 1.0)


class Exponential(Gamma):
    """The time until an event that happens `rate` times per unit."""

    def __init__(
        self,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Exponential",
    ) -> None:
        parameters = dict(locals())
        given = parameter(rate, "rate")
        self._define(apply_op("OnesLike", given), given, parameters, name)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        least = float(2.0**-40)
        drawn = random_uniform(self._full_shape(prefix), least, 1.0, self.dtype, seed)
        return -log(drawn) / self.rate

    def _quantile(self, value: Tensor) -> Tensor:
        return -log1p(-value) / self.rate


class Beta(Distribution):
    """The beta distribution on (0, 1)."""

    def __init__(
        self,
        concentration1: Any = None,
        concentration0: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        parameters = dict(locals())
        self.concentration1 = parameter(concentration1, "concentration1", concentration0)
        self.concentration0 = parameter(concentration0, "concentration0", self.concentration1)
        self.total_concentration = self.concentration1 + self.concentration0
        batch = self.total_concentration
        dtype = batch.dtype.base
        super().__init__(dtype, parameters, batch, (), FULLY_REPARAMETERIZED, name)

    def _sample(self, prefix: Tensor, seed: int | None) -> Tensor:
        zeros = apply_op("ZerosLike", self._batch)
        other = None if seed is None else seed + 1
        one = random_gamma(prefix, self.concentration1 + zeros, None, self.dtype, seed)
        two = random_gamma(prefix, self.concentration0 + zeros, None, self.dtype, other)
        return one / (one + two)

    def _log_norm(self) -> Tensor:
        parts = lgamma(self.concentration1) + lgamma(self.concentration0)
        return parts - lgamma(self.total_concentration)

    def _log_prob(self, value: Tensor) -> Tensor:
        above = apply_op("Xlogy", self.concentration1 - 1.0, value)
        above = above + apply_op("Xlog1py", self.concentration0 - 1.0, -value)
        result: Tensor = above - self._log_norm()
        return result

    def _cdf(self, value: Tensor) -> Tensor:
        zeros = apply_op("ZerosLike", self._batch) + apply_op("ZerosLike", value)
        return betainc(self.concentration1 + zeros, self.concentration0 + zeros, value + zeros)

    def entropy(self, name: str = "entropy") -> Tensor:
        """In closed form."""
        one, two, total = self.concentration1, self.concentration0, self.total_concentration
        return (
            self._log_norm()
            - (one - 1.0) * digamma(one)
            - (two - 1.0) * digamma(two)
            + (total - 2.0) * digamma(total)
        )

    def mean(self, name: str = "mean") -> Tensor:
        """`concentration1 / total`."""
        return self.concentration1 / self.total_concentration

    def variance(self, name: str = "variance") -> Tensor:
        """`mean (1 - mean) / (1 + total)`."""
        mean = self.mean()
        return mean * (1.0 - mean) / (1.0 + self.total_concentration)

    def mode(self, name: str = "mode") -> Tensor:
        """`(concentration1 - 1) / (total - 2)`; nan where either is at most 1."""
        found = (self.concentration1 - 1.0) / (self.total_concentration - 2.0)
        above = apply_op("LogicalAnd", self.concentration1 > 1.0, self.concentration0 > 1.0)
        return _nan_or(above, found)


@RegisterKL(Beta, Beta)
def _kl_beta(a: Beta, b: Beta) -> Tensor:
    one = (a.concentration1 - b.concentration1) * digamma(a.concentration1)
    two = (a.concentration0 - b.concentration0) * digamma(a.concentration0)
    total = b.total_concentration - a.total_concentration
    norms = b._log_norm() - a._log_norm()
    return norms + one + two + total * digamma(a.total_concentration)
