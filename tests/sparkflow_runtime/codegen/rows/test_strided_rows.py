from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows.strided_rows import copy_view, loops_of

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")


def test_loops_are_as_few_as_possible() -> None:
    x = np.zeros((8, 96, 96, 3), np.float32)
    for view, expected in (
        (x[:, :, ::-1], (12, [(768, 1152), (96, -12)])),
        (x[:, ::2, ::2], (12, [(8 * 48, 2304), (48, 24)])),
        (x[:, 3:50, 7:9], (24, [(8, 96 * 96 * 12), (47, 1152)])),
        (x[..., 1], (4, [(8 * 96 * 96, 12)])),
        (x[..., :2], (8, [(8 * 96 * 96, 12)])),
        (x[:1, :1, :1, ::-2], (4, [(2, -8)])),
        (x[::2].transpose(0, 2, 1, 3), (12, [(4, 2 * 96 * 96 * 12), (96, 12), (96, 1152)])),
        (x, (x.nbytes, [])),
    ):
        assert loops_of(view.shape, view.strides, 4) == expected


@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8", "c16"])
@pytest.mark.parametrize(
    "index",
    [
        np.s_[:, :, ::-1],
        np.s_[::-1, ::-2, ::3, ::-1],
        np.s_[:, 1:, :, 1:],
        np.s_[:, ::2, 3:4],
        np.s_[:, :, ::-1, :2],
        np.s_[1:1],
    ],
)
def test_any_view_is_copied(dtype: str, index: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, (5, 18, 30, 3)).astype(dtype)
    for view in (x[index], x[index].transpose(1, 0, 2, 3), np.broadcast_to(x[:1], x.shape)[index]):
        target = np.full(view.shape, 7, dtype)
        if copy_view(view, target):
            np.testing.assert_array_equal(target, view)
        else:
            assert (target == 7).all()


def test_rows_of_pixels_are_copied_by_machine_code_on_several_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "count", lambda: 2)
    x = np.random.default_rng(0).random((40, 90, 90, 3), np.float32)
    target = np.zeros_like(x)
    assert copy_view(x[:, :, ::-1], target)
    np.testing.assert_array_equal(target, x[:, :, ::-1])


@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
@pytest.mark.parametrize("size", [16, 17, 63, 64, 65, 200])
def test_long_rows_are_read_backwards(size: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 4, size)).astype(dtype)
    for view in (x[:, :, ::-1], x[::-1, 1:, ::-1], x[0, :, ::-1], x[::-1, ::-1, ::-1]):
        target = np.full(view.shape, 7, dtype)
        assert copy_view(view, target)
        np.testing.assert_array_equal(target, view)
    assert not copy_view(x[:, :, ::-2], np.zeros((3, 4, (size + 1) // 2), dtype)) or size < 32


@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
@pytest.mark.parametrize("size", [16, 17, 64, 65, 200])
def test_elements_are_repeated(size: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 4, 2)).astype(dtype)[..., :1]
    for part in (x, x[::-1, 1:], x[0]):
        view = np.broadcast_to(part, (*part.shape[:-1], size))
        target = np.full(view.shape, 7, dtype)
        assert copy_view(view, target)
        np.testing.assert_array_equal(target, view)


@pytest.mark.parametrize("size", [65, 96, 127, 128, 129, 700, 768])
def test_rows_of_any_length(size: int) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 4, size + 3)).astype(np.uint8)
    for view in (x[:, :, 1 : size + 1], x[::-1, 1:, 3:], x[0, ::-1, :size], x[:2, :, :size]):
        target = np.full(view.shape, 7, np.uint8)
        assert copy_view(view, target)
        np.testing.assert_array_equal(target, view)


def test_what_numpy_copies_as_fast_or_cannot_be_copied_is_left_to_it() -> None:
    x = np.zeros((40, 90, 90, 3), np.float32)
    wide = np.zeros((3, 5000))
    assert not copy_view(wide[:, 2:], wide[:, 2:].copy())  # long rows
    assert not copy_view(x[..., 1], np.zeros((40, 90, 90), np.float32))  # one long loop
    mirrored = x[:, :, ::-1]
    assert not copy_view(mirrored, np.zeros(x.shape))
    assert not copy_view(mirrored, np.zeros(x.shape, np.float32)[:, ::-1])
    assert not copy_view(mirrored, np.zeros(x.size, np.float32))
    texts = np.full((5, 6, 2), "a", object)
    assert not copy_view(texts[:, ::-1], texts.copy())
