"""Which sums over alignments have machine code; their values: tests of `ops.nn.ctc`."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows import alignments

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

LABELS, STARTS, LENGTHS = np.zeros(1, np.int32), np.array([0, 1]), np.array([3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_label(dtype: type) -> None:
    """Of equally likely classes A and blank, six of eight sequences hold one run of A."""
    found = alignments.losses(np.zeros((3, 1, 2), dtype), LABELS, STARTS, LENGTHS, True)
    assert found is not None
    loss, gradient = found
    assert loss.dtype == gradient.dtype == dtype
    np.testing.assert_allclose(loss, [-np.log(6 / 8)], rtol=1e-6)
    occupied = np.array([[3, 3], [4, 2], [3, 3]]) / 6
    np.testing.assert_allclose(gradient[:, 0], 0.5 - occupied, atol=1e-7)


def test_views_are_copied() -> None:
    inputs = np.random.default_rng(1).standard_normal((1, 3, 2)).astype(np.float32)
    found = alignments.losses(inputs.transpose(1, 0, 2)[::-1], LABELS, STARTS, LENGTHS, True)
    plain = alignments.losses(
        np.ascontiguousarray(inputs[0, ::-1, None]), LABELS, STARTS, LENGTHS, True
    )
    assert found is not None
    assert plain is not None
    np.testing.assert_array_equal(found[1], plain[1])


def test_what_has_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for inputs in (np.zeros((3, 1, 2), np.float16), np.zeros((3, 1, 2), ">f4")):
        assert alignments.losses(inputs, LABELS, STARTS, LENGTHS, True) is None
    monkeypatch.setattr(native, "available", lambda: False)
    assert alignments.losses(np.zeros((3, 1, 2)), LABELS, STARTS, LENGTHS, True) is None
