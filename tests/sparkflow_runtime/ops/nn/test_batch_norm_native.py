"""Batch normalisation in machine code gives the same as in numpy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.nn import batch_norm, batch_norm_native

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]
CONTEXT: Any = SimpleNamespace(xp=np, gpu=None)


def attrs_of(
    is_training: bool, dtype: Any = dtypes.float32, share: float = 1.0, data_format: str = "NHWC"
) -> dict[str, Any]:
    return {
        "T": dtype,
        "U": dtype,
        "epsilon": 0.01,
        "exponential_avg_factor": share,
        "data_format": data_format,
        "is_training": is_training,
    }


def inputs(shape: tuple[int, ...], kind: Any) -> list[Array]:
    """Images, scale, offset, mean and variance."""
    generator = np.random.default_rng(3)
    channels = shape[-1]
    vectors = [generator.uniform(0.5, 2, channels).astype(kind) for _ in range(4)]
    return [(generator.standard_normal(shape) * 3 + 2).astype(kind), *vectors]


def run(op: Any, attrs: dict[str, Any], given: list[Array], shapes: list[Any]) -> list[Array]:
    node: Any = SimpleNamespace(attrs=attrs)
    kernel = op().bind_out(node, CONTEXT)
    outs = [np.full(shape, np.nan, given[0].dtype) for shape in shapes]
    kernel(*given, *outs)
    return outs


@pytest.fixture(params=[False, True], ids=["arrays", "numpy"])
def _refusing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as it is, once without kernels."""
    if request.param:
        monkeypatch.setattr(batch_norm_native.normalisation_kernels, "bind", lambda *_: None)


@pytest.mark.usefixtures("_refusing")
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize("share", [1.0, 0.25])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("shape", [(2, 5, 4, 3), (3, 9, 9, 32), (1, 1, 1, 5)])
def test_forward(shape: Any, is_training: bool, share: float, dtype: Any) -> None:
    kind = dtype.as_numpy_dtype
    given = inputs(shape, kind)
    attrs = attrs_of(is_training, dtype, share)
    plain = {name: each for name, each in attrs.items() if name not in ("T", "U")}
    expected = batch_norm.FusedBatchNormV3().compute(np, *given, **plain)
    found = run(batch_norm.FusedBatchNormV3, attrs, given, [each.shape for each in expected])
    tolerance = 2e-5 if kind is np.float32 else 1e-12
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("_refusing")
@pytest.mark.parametrize("op", [batch_norm.FusedBatchNormGrad, batch_norm.FusedBatchNormGradV3])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("shape", [(2, 5, 4, 3), (3, 9, 9, 32)])
def test_gradient(shape: Any, is_training: bool, op: Any) -> None:
    x, scale, _, mean, variance = inputs(shape, np.float32)
    if is_training:
        axes = (0, 1, 2)
        mean, variance = x.mean(axes), x.var(axes)
    dy = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    given = [dy, x, scale, mean, variance]
    if op is batch_norm.FusedBatchNormGradV3:
        given.append(np.zeros(0, np.float32))
    attrs = attrs_of(is_training)
    plain = {name: attrs[name] for name in ("epsilon", "data_format", "is_training")}
    expected = op().compute(np, *given, **plain)
    found = run(op, attrs, given, [each.shape for each in expected])
    for a, b in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_images_with_gaps_are_left_to_numpy() -> None:
    given = inputs((2, 6, 4, 3), np.float32)
    given[0] = given[0][:, ::2]
    attrs = attrs_of(True)
    plain = {name: each for name, each in attrs.items() if name not in ("T", "U")}
    expected = batch_norm.FusedBatchNormV3().compute(np, *given, **plain)
    found = run(batch_norm.FusedBatchNormV3, attrs, given, [each.shape for each in expected])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)


def test_wrong_images_raise_what_numpys_way_raises() -> None:
    given = inputs((6, 4, 3), np.float32)
    with pytest.raises(batch_norm.InvalidArgumentError, match="input must be 4-dimensional"):
        run(batch_norm.FusedBatchNormV3, attrs_of(True), given, [(6, 4, 3), *[(3,)] * 4, (0,)])
    shape = (2, 3, 2, 4)
    wrong = [each[:3] if number else each for number, each in enumerate(inputs(shape, np.float32))]
    with pytest.raises(ValueError, match="could not be broadcast"):
        run(batch_norm.FusedBatchNormV3, attrs_of(False), wrong, [shape, *[(4,)] * 4, (0,)])
