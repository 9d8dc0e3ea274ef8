"""Factors as tiles read them: by blocks of the sum, by tiles' columns, depth by depth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from support.tiles import FORMS, packed

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")


@pytest.mark.parametrize("name", list(FORMS))
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("contents", ["numbers", "infinities"])
def test_each_slice_of_a_block_lies_depth_by_depth(
    name: str, is_turned: bool, contents: str
) -> None:
    form = FORMS[name]
    dtype = {"float": np.float32, "double": np.float64}[form.element]
    generator = np.random.default_rng(len(name))
    for depth, columns in itertools.product((1, 19, 24, 25, 67), (form.columns + 1, 67, 128)):
        factor = generator.normal(size=(depth, columns)).astype(dtype)
        if contents == "infinities":
            factor[generator.random(factor.shape) < 0.1] = np.inf
        lies = np.ascontiguousarray(factor.T).T if is_turned else factor
        found = packed(form, lies)
        blocks = math.ceil(depth / form.depth)
        deep = math.ceil(depth / blocks)  # as equal as possible
        for first in range(0, depth, deep):
            block = factor[first : first + deep]
            size = len(block) * form.packed_columns(columns)
            start = first * form.packed_columns(columns)
            slices = found[start : start + size].reshape(-1, len(block), form.columns)
            beside = slices.transpose(1, 0, 2).reshape(len(block), -1)
            np.testing.assert_array_equal(beside[:, :columns], block)
