"""Histograms: TensorFlow's buckets, and which values they count."""

import math

import numpy as np
import pytest

from sparkflow_runtime.events.histogram import LARGEST, bucket_limits, histogram


def test_limits_grow_by_a_tenth_and_are_mirrored() -> None:
    limits = bucket_limits()
    positive = limits[limits > 0]
    np.testing.assert_allclose(positive[1:-1] / positive[:-2], 1.1)
    assert positive[0] == 1e-12
    assert positive[-2] < 1e20 <= positive[-2] * 1.1
    assert positive[-1] == LARGEST
    np.testing.assert_array_equal(limits, -limits[::-1])
    assert len(positive) == math.ceil(32 * math.log(10) / math.log(1.1)) + 1


@pytest.mark.parametrize("place", [3, 700, 774, 775, 1200])
def test_a_limit_belongs_to_the_next_bucket(place: int) -> None:
    limit = bucket_limits()[place]
    below = histogram(np.array([np.nextafter(limit, -np.inf)]))
    at = histogram(np.array([limit]))
    assert below.bucket_limit[list(below.bucket).index(1)] == limit
    assert at.bucket_limit[list(at.bucket).index(1)] == bucket_limits()[place + 1]


def test_the_largest_number_is_in_the_last_bucket() -> None:
    found = histogram(np.array([LARGEST, 1e300]))
    assert (found.bucket_limit[-1], found.bucket[-1]) == (LARGEST, 2)
    assert found.sum == found.sum_squares == math.inf  # and there is no warning


def test_moments() -> None:
    found = histogram(np.array([[1.0, -2.0], [4.0, 0.5]], np.float32))
    assert (found.min, found.max, found.num) == (-2.0, 4.0, 4)
    assert (found.sum, found.sum_squares) == (3.5, 21.25)
    assert sum(found.bucket) == 4


def test_empty_buckets_beside_each_other_are_one() -> None:
    found = histogram(np.array([1.0, 1.0, 50.0]))
    assert list(found.bucket) == [0, 2, 0, 1, 0]
    limits = list(found.bucket_limit)
    assert limits == sorted(limits)
    assert limits[0] <= 1.0 < limits[1] <= limits[2] <= 50.0 < limits[3] < limits[4] == LARGEST


def test_nothing_has_one_empty_bucket() -> None:
    found = histogram(np.array([], np.float32))
    assert (list(found.bucket), list(found.bucket_limit)) == ([0], [LARGEST])
    assert (found.min, found.max, found.num) == (LARGEST, -LARGEST, 0)
