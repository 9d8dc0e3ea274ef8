"""What the first rows imply about all, tested without Spark."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pyspark.sql import Row

from sparkflow.spark.data.plan.profile import SourceProfile, is_uneven, resolve
from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.plan.spooled import _profile
from sparkflow.spark.data.schema.row_schema import ARRAY, SCALARS, VECTOR


def _source(form: str, kind: str = "dense", depth: int = 0, **more: Any) -> Source:
    given = {"name": "x", "columns": ("x",), "dtype": "float32", "shape": None}
    return Source(**{**given, "form": form, "kind": kind, "depth": depth, **more})


_THIN = Row(size=100, stored=1, indices=[3], values=[1.0])
_FULL = Row(size=3, stored=3, indices=None, values=[1.0, 0.0, 2.0])


@pytest.mark.parametrize(
    ("source", "held", "kind", "shape"),
    [
        (_source(SCALAR, shape=()), [1.0, 2.0], "dense", ()),
        (_source(SCALARS, shape=(2,)), [[1.0, 2.0]], "dense", (2,)),
        (_source(SCALARS, shape=(2,)), [], "dense", (2,)),
        (_source(ARRAY, depth=1), [[1.0, 2.0, 3.0]] * 2, "dense", (3,)),
        (_source(ARRAY, depth=2), [Row(shape=[2, 2], values=[1.0] * 4)], "dense", (2, 2)),
        (_source(ARRAY, "ragged", 1, shape=()), [[1.0], [2.0, 3.0]], "ragged", ()),
        (_source(VECTOR), [[1.0, 2.0]], "dense", (2,)),
        (_source(VECTOR, ""), [_FULL, _FULL], "dense", (3,)),
        (_source(VECTOR, ""), [_THIN, _THIN], "sparse", (100,)),
    ],
)
def test_the_first_rows_give_kind_and_shape(
    source: Source, held: list[Any], kind: str, shape: tuple[int, ...]
) -> None:
    found = _profile(source, held)
    assert found.invalid == 0
    assert not is_uneven(source, found)
    made = resolve(source, found)
    assert (made.kind, made.shape) == (kind, shape)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_rows_that_cannot_be_trained_on_are_counted(value: Any) -> None:
    assert _profile(_source(SCALAR, shape=()), [1.0, value]).invalid == 1
    assert _profile(_source(ARRAY, depth=1), [[1.0], [value], None]).invalid == 2


def test_thin_and_uneven_rows_are_seen() -> None:
    assert _profile(_source(VECTOR, ""), [_THIN, _FULL]) == SourceProfile(0, 3, 100, 4, 103, 1)
    assert is_uneven(_source(ARRAY, depth=1), _profile(_source(ARRAY, depth=1), [[1.0], []]))
