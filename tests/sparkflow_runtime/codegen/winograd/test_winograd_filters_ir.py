"""Transformed filters, as used by each product and panel, against the definition in float64."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import host, native
from sparkflow_runtime.codegen.winograd import winograd_filters_ir as filters_ir
from sparkflow_runtime.codegen.winograd.winograd_ir import POINTS, PRODUCTS, Field, Form
from tests.sparkflow_runtime.codegen.winograd.test_winograd_ir import Numbers

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize(("taps", "channels", "outputs"), [(3, 5, 70), (5, 33, 3), (4, 32, 32)])
def test_transformed_filters(taps: int, channels: int, outputs: int, is_turned: bool) -> None:
    lanes = host.host().vector_bytes // 4
    form = Form(taps, lanes, 6, 2, channels % lanes > 0, outputs % lanes > 0)
    panels = -(-outputs // form.panel)
    shape = (outputs, channels) if is_turned else (channels, outputs)
    generator = np.random.default_rng(3)
    given = generator.standard_normal((taps, taps, *shape), np.float32)
    numbers = {
        Field.CHANNELS: channels,
        Field.OUTPUTS: outputs,
        Field.PANELS: panels,
        Field.FILTER_TAP: channels * outputs,
        Field.FILTER_CHANNEL: 1 if is_turned else outputs,
        Field.FILTER_OUTPUT: channels if is_turned else 1,
        Field.RIGHT_PLANE: channels * panels * form.panel,
    }
    found = np.full((PRODUCTS, panels, channels, form.panel), np.nan, np.float32)
    run = native.written_body(filters_ir.filters_text, (form, is_turned), is_tidy=True).bind(
        [numbers.get(field, 0) for field in Field],
        [given.size, found.size],
        -(-channels // lanes),
    )
    assert run(given, found)
    if is_turned:
        given = given[::-1, ::-1].swapaxes(2, 3)
    transform = Numbers(form).of_filter
    columns = transform(given.astype(np.float64))
    expected = np.stack([transform(line) for line in columns])  # [6, 6, channels, outputs]
    assert expected.shape[:2] == (POINTS, POINTS)
    result = found.transpose(0, 2, 1, 3).reshape(POINTS, POINTS, channels, -1)[..., :outputs]
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)
