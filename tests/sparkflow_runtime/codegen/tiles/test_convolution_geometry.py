"""Positions of elements for contractions: the gradient's phases and packed filters, plainly."""

import itertools

import numpy as np
import pytest

from sparkflow_runtime.codegen.tiles.contraction_ir import Field
from sparkflow_runtime.codegen.tiles.convolution_geometry import (
    Axis,
    Each,
    Images,
    Packing,
    Solid,
    phases,
)
from sparkflow_runtime.ops.windows import Layout, Window

GRID = [
    each
    for each in itertools.product(["SAME", "VALID"], [6, 9], [1, 3, 4], [1, 2, 3], [1, 2])
    if (each[2] - 1) * each[4] + 1 <= each[1]
]


def window(padding: str, size: int, dim: int, stride: int, dilation: int) -> Window:
    layout = Layout((stride,), (dilation,), padding, ((0, 0),), "NWC")
    return layout.windows((dim,), (size,))[0]


@pytest.mark.parametrize(("padding", "dim", "size", "stride", "dilation"), GRID)
def test_an_axis_has_room_for_every_window(
    padding: str, dim: int, size: int, stride: int, dilation: int
) -> None:
    axis = Axis.of(window(padding, size, dim, stride, dilation), dim)
    last = (axis.count - 1) * axis.step + (axis.taps - 1) * axis.tap
    assert last < axis.padded
    assert axis.padded >= axis.before + dim
    assert axis.is_padded is (axis.padded > dim)


@pytest.mark.parametrize(
    ("padding", "dim", "size", "stride", "dilation"),
    [each for each in GRID if 1 in each[3:]],  # TensorFlow has no convolution with both
)
def test_phases_give_the_gradient_of_a_convolution(
    padding: str, dim: int, size: int, stride: int, dilation: int
) -> None:
    random = np.random.RandomState(1)
    over = window(padding, size, dim, stride, dilation)
    dy, filters = random.rand(over.count), random.rand(size)
    wanted = np.zeros(dim)
    for n, tap in itertools.product(range(over.count), range(size)):
        element = n * stride + tap * dilation - over.before
        if 0 <= element < dim:
            wanted[element] += dy[n] * filters[tap]
    found, seen = np.full(dim, np.nan), set()
    for phase in phases(over, dim):
        axis = phase.axis
        padded = np.zeros(axis.padded)
        padded[axis.before : axis.before + over.count] = dy
        taken = filters[phase.taken()]
        assert len(taken) == axis.taps
        for number in range(axis.count):
            start = axis.origin + number * axis.step
            reached = [padded[start + tap * axis.tap] for tap in range(axis.taps)]
            element = phase.first + number * phase.stride
            assert element not in seen
            seen.add(element)
            found[element] = np.dot(reached, taken)
    np.testing.assert_allclose(found, wanted)


def images(channels: int, pitch: int, padding: str = "VALID") -> Images:
    rows = Axis.of(window(padding, 3, 6, 1, 1), 6)
    columns = Axis.of(window(padding, 3, 5, 1, 1), 5)
    return Images(Axis.of(Each(2), 2), rows, columns, channels, pitch)


def test_images_are_copied_where_they_are_padded_or_their_channels_are() -> None:
    assert not images(4, 4).is_copied
    assert images(4, 8).is_copied
    assert images(4, 4, "SAME").is_copied
    assert images(4, 4).is_run
    assert not images(4, 8).is_run
    assert images(4, 4).windows == 4 * 3


def test_planes_outside_a_volume_are_left_out_and_not_copied() -> None:
    plain = images(4, 4)
    planes = Axis.of(window("SAME", 3, 5, 1, 1), 5)
    over = Images(planes, plain.rows, plain.columns, 4, 4)
    assert not over.is_copied
    fields = over.fields()
    assert (fields[Field.WHOLE_START], fields[Field.WHOLE_STOP]) == (1, 4)
    last = Images(planes.only(2), plain.rows, plain.columns, 4, 4).fields()
    assert (last[Field.PLANES_BEFORE], last[Field.TAPS], last[Field.PLANES_SEEN]) == (-1, 1, 1)
    assert (last[Field.WHOLE_START], last[Field.WHOLE_STOP]) == (-1, 4)


def test_images_are_the_planes_of_one_volume() -> None:
    windows = (window("SAME", 3, 6, 1, 1), window("SAME", 2, 5, 2, 1))
    given = Solid.of((7, 6, 5, 4), (3, 2, 4, 8), windows)
    assert (given.images, given.filters) == ((1, 7, 6, 5, 4), (1, 3, 2, 4, 8))
    assert [axis.count for axis in given.axes] == [7, 6, 3]
    fields = Images(*given.axes, 4, 4).fields()
    assert (fields[Field.PLANES], fields[Field.PLANES_GIVEN]) == (7, 7)
    assert (fields[Field.WHOLE_START], fields[Field.WHOLE_STOP]) == (0, 7)
    assert Solid.of(given.images, given.filters, given.windows) == given


def test_fields_of_padded_images() -> None:
    fields = images(4, 8, "SAME").fields()
    assert fields[Field.LEFT_IMAGE] == 6 * 5 * 4
    assert fields[Field.PADDED_LINE] == 7 * 8
    assert fields[Field.PADDED_IMAGE] == 8 * 7 * 8
    assert fields[Field.PADDED_ORIGIN] == 7 * 8 + 8
    assert (fields[Field.RUNS], fields[Field.LINE]) == (5, 4)
    dense = images(4, 4, "SAME").fields()
    assert (dense[Field.RUNS], dense[Field.LINE]) == (1, 20)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("panel", [0, 4, 5, 16])
@pytest.mark.parametrize(
    "picked",
    [
        (slice(None),) * 3,
        (slice(1, None, -1), slice(2, None, -1), slice(2, None, -1)),
        (slice(1, None, -1), slice(2, None, -2), slice(0, 2)),
    ],
)
def test_packed_filters_are_panels_of_outputs(
    transposed: bool, panel: int, picked: tuple[slice, slice, slice]
) -> None:
    filters = np.random.RandomState(2).rand(2, 3, 3, 5, 10)
    packing = Packing(filters.shape, panel, picked, transposed)
    target = np.full(packing.size(), np.nan)
    packing(filters, target)
    again = np.full_like(target, np.nan)
    packing.merged()(filters, again)
    np.testing.assert_array_equal(again, target)
    chosen = filters[picked]
    if transposed:
        chosen = chosen.swapaxes(3, 4)
    if not panel:
        np.testing.assert_array_equal(target.reshape(chosen.shape), chosen)
        return
    outputs = chosen.shape[-1]
    panels = target.reshape(-1, *chosen.shape[:4], panel)
    for output in range(len(panels) * panel):
        part = panels[output // panel, ..., output % panel]
        wanted = chosen[..., output] if output < outputs else np.zeros_like(part)
        np.testing.assert_array_equal(part, wanted)


def test_places_in_order_or_in_reverse_are_merged() -> None:
    forward, back = slice(None), slice(2, None, -1)
    assert Packing((3, 3, 5, 10), 4, (forward, forward)).merged().filters == (9, 5, 10)
    assert Packing((3, 3, 5, 10), 4, (back, back)).merged().filters == (9, 5, 10)
    assert Packing((3, 3, 5, 10), 4, (forward, back)).merged().filters == (3, 3, 5, 10)
