"""What meets in a convolution along one dimension, against its definition."""

import itertools

import pytest

from sparkflow_runtime.codegen.depthwise.meetings import (
    Meeting,
    Pattern,
    Place,
    of_elements,
    of_results,
    patterns,
)
from sparkflow_runtime.ops.windows import Layout, Window

GRID = [
    each
    for each in itertools.product(["SAME", "VALID"], [6, 9], [1, 3, 4], [1, 2, 3], [1, 2])
    if (each[2] - 1) * each[4] + 1 <= each[1]
]


def window(padding: str, dim: int, size: int, stride: int, dilation: int) -> Window:
    layout = Layout((stride,), (dilation,), padding, ((0, 0),), "NWC")
    return layout.windows((dim,), (size,))[0]


@pytest.mark.parametrize(("padding", "dim", "size", "stride", "dilation"), GRID)
def test_results_and_elements_meet(
    padding: str, dim: int, size: int, stride: int, dilation: int
) -> None:
    over = window(padding, dim, size, stride, dilation)
    wanted = {
        (result, result * stride + tap * dilation - over.before, tap)
        for result, tap in itertools.product(range(over.count), range(size))
        if 0 <= result * stride + tap * dilation - over.before < dim
    }
    results, elements = of_results(over, dim), of_elements(over, dim)
    assert (len(results), len(elements)) == (over.count, dim)
    assert {(n, *each) for n, some in enumerate(results) for each in some} == wanted
    found = {(each.other, n, each.tap) for n, some in enumerate(elements) for each in some}
    assert found == wanted


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4, 5, 20])
@pytest.mark.parametrize(("padding", "dim", "size", "stride", "dilation"), GRID)
def test_patterns_cover_all_elements(
    padding: str, dim: int, size: int, stride: int, dilation: int, width: int, overlaps: bool
) -> None:
    meetings = of_elements(window(padding, dim, size, stride, dilation), dim)
    covered: list[int] = []
    found: list[set[Meeting]] = [set() for _ in meetings]
    for pattern, places in patterns(meetings, width, overlaps).items():
        assert pattern.products == tuple(sorted(pattern.products))
        assert pattern.width == width or not overlaps or width > dim
        for first, other in places:
            covered += range(first, first + pattern.width)
            for place, number, tap in pattern.products:
                assert place < pattern.seen
                found[first + number].add(Meeting(other + place, tap))
    assert found == [set(each) for each in meetings]
    assert set(covered) == set(range(dim))
    assert overlaps or len(covered) == dim


def test_the_inner_patterns_of_a_line_are_the_same() -> None:
    over = window("SAME", 32, 3, 1, 1)
    left, middle, right = patterns(of_results(over, 32), 8, overlaps=True).items()
    assert left[1] == [Place(0, 0)]
    assert middle[1] == [Place(8, 7), Place(16, 15)]
    assert right[1] == [Place(24, 23)]
    assert [len(pattern.products) for pattern, _ in (left, middle, right)] == [23, 24, 23]
    assert middle[0].seen == 10


def test_what_meets_nothing_has_a_pattern_without_products() -> None:
    assert patterns([[], []], 2, overlaps=True) == {Pattern(2, ()): [Place(0, 0)]}
    assert patterns([], 2, overlaps=True) == {}
