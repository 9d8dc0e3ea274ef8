"""Class weights, as far as they need no rows."""

import pytest

from sparkflow.spark.data.plan.profile import MOST_CLASSES
from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.plan.weights import BALANCED, class_factors, require_classes
from sparkflow.spark.data.schema.row_format import DENSE, Input
from sparkflow.spark.data.schema.row_schema import ARRAY, LABEL, VECTOR

FLOATS, INTEGERS = (Input("label", DENSE, dtype, ()) for dtype in ("float32", "int64"))


def label(dtype: str = "int64", form: str = SCALAR) -> Source:
    return Source("label", ("y",), form, dtype, DENSE, (), role=LABEL)


def test_balanced_weighs_all_classes_the_same_and_the_mean_row_as_1() -> None:
    rows = {0.0: 60, 1.0: 30, 2.0: 10}
    factors = class_factors(BALANCED, INTEGERS, rows)
    assert len({round(factors[each] * rows[each], 9) for each in rows}) == 1
    assert sum(factors[each] * rows[each] for each in rows) == pytest.approx(100)


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_too_many_labels_are_no_classes(more: int, fits: bool) -> None:
    rows = dict.fromkeys(map(float, range(MOST_CLASSES + more)), 1)
    if fits:
        assert set(class_factors(BALANCED, INTEGERS, rows).values()) == {1.0}
    else:
        with pytest.raises(ValueError, match=f"there are {MOST_CLASSES + 1} different labels"):
            class_factors(BALANCED, INTEGERS, rows)


@pytest.mark.parametrize(
    ("labels", "given", "found"),
    [
        (INTEGERS, {"0": 1.0, "-3": 2.0}, {0: 1.0, -3: 2.0}),
        (INTEGERS, {"1.0": 3.0, "1e2": 4.0}, {1: 3.0, 100: 4.0}),
        (FLOATS, {"0": 1.0, "0.5": 2.0}, {0.0: 1.0, 0.5: 2.0}),
    ],
)
def test_labels_are_numbers_of_the_columns_type(
    labels: Input, given: dict[str, float], found: dict[float, float]
) -> None:
    factors = class_factors(given, labels, {})
    assert factors == found
    assert {type(each) for each in factors} == {int if labels is INTEGERS else float}


@pytest.mark.parametrize(
    ("labels", "given", "text"),
    [
        (INTEGERS, {"1": 1.0, "1.0": 2.0}, "names a label twice: 1, 1.0"),
        (INTEGERS, {"1.5": 1.0}, "'1.5', but the labels are integers"),
        (FLOATS, {"yes": 1.0}, "'yes'; labels are numbers"),
    ],
)
def test_labels_that_cannot_be(labels: Input, given: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        class_factors(given, labels, {})


def test_only_single_labels_are_weighted() -> None:
    require_classes(None, {})
    require_classes(label(), BALANCED)
    require_classes(label("float32"), {"0.5": 1.0})
    with pytest.raises(ValueError, match="needs labels, but there are none"):
        require_classes(None, BALANCED)
    for form in (ARRAY, VECTOR):
        with pytest.raises(ValueError, match="the label column 'y' holds several"):
            require_classes(label(form=form), BALANCED)
    with pytest.raises(ValueError, match=r"'0\.5', but the labels are integers"):
        require_classes(label(), {"0.5": 1.0})
