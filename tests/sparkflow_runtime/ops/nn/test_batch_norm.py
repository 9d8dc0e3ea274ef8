"""The gradients of batch normalisation as a formula, from which second derivatives are built."""

from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.ops.nn.batch_norm import _gradients
from support.eager import EagerBuilder

SHAPES = {"NHWC": (2, 3, 2, 4), "NCHW": (2, 4, 3, 2), "NDHWC": (2, 2, 1, 3, 4)}


def inputs(data_format: str, is_training: bool) -> list[Any]:
    """dy, x, scale, and the mean and variance that the gradient op receives."""
    rng = np.random.default_rng(7)
    dy, x = rng.normal(size=(2, *SHAPES[data_format]))
    axes = tuple(i for i, letter in enumerate(data_format) if letter != "C")
    mean, variance = rng.normal(size=4), rng.uniform(0.5, 2, 4)
    if is_training:
        mean, variance = x.mean(axes), x.var(axes)
    return [dy, x, rng.uniform(0.5, 2, 4), mean, variance]


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("data_format", SHAPES)
def test_formula_gives_what_the_kernel_gives(data_format: str, is_training: bool) -> None:
    g = EagerBuilder()
    given = [g.tensor(each) for each in inputs(data_format, is_training)]
    attrs = {"epsilon": 0.01, "data_format": data_format, "is_training": is_training}
    kernel = g.FusedBatchNormGrad(*given, **attrs)[:3]
    for found, expected in zip(_gradients(g, *given, **attrs), kernel, strict=True):
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("is_training", [True, False])
def test_second_derivatives_are_those_of_central_differences(is_training: bool) -> None:
    attrs = {"epsilon": 0.01, "data_format": "NHWC", "is_training": is_training}
    arrays = inputs("NHWC", is_training)
    weights = [
        np.random.default_rng(8).normal(size=each.shape) for each in (*arrays[1:3], arrays[2])
    ]

    def total(dy: Any, x: Any, scale: Any) -> float:
        mean, variance = arrays[3:]
        if is_training:
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        g = EagerBuilder()
        found = g.FusedBatchNormGrad(*map(g.tensor, (dy, x, scale, mean, variance)), **attrs)
        return float(sum((w * each.value).sum() for w, each in zip(weights, found, strict=False)))

    g = EagerBuilder()
    given = [g.tensor(each) for each in arrays]
    outputs = g.FusedBatchNormGrad(*given, **attrs)[:3]
    found = g.gradients(outputs, given[:3], [g.tensor(each) for each in weights])
    for index, gradient in enumerate(found):
        for place in [(0,) * arrays[index].ndim, (-1,) * arrays[index].ndim]:
            ends = []
            for step in (1e-5, -1e-5):
                moved = [each.copy() for each in arrays[:3]]
                moved[index][place] += step
                ends.append(total(*moved))
            numeric = (ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose(gradient.value[place], numeric, rtol=1e-5, atol=1e-7)
