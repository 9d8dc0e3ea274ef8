"""Single values: which are accepted, how they are stored, and the errors for others."""

import math
from typing import Any

import numpy as np
import pytest

from sparkflow.spark.params import converters as c

GOOD: list[tuple[Any, Any, Any]] = [
    (c.column, "age", "age"),
    (c.columns, ["a", "b"], ["a", "b"]),
    (c.columns, ("a",), ["a"]),
    (c.columns, {"x": "a", "y": ("b", "c")}, {"x": "a", "y": ["b", "c"]}),
    (c.integer(1), 1, 1),
    (c.integer(1), np.int64(7), 7),
    (c.number(0.0, 1.0), 0, 0.0),
    (c.number(0.0, 1.0), np.float32(1), 1.0),
    (c.choice("Min", "max"), "MIN", "Min"),
    (c.resumption, True, "auto"),
    (c.resumption, False, "never"),
    (c.resumption, "Always", "always"),
    (c.in_process, True, "always"),
    (c.in_process, False, "never"),
    (c.in_process, "auto", "auto"),
    (c.auto_or_boolean, False, False),
    (c.auto_or_boolean, "AUTO", "auto"),
    (c.seconds, 3, 3.0),
    (c.seconds_or_zero, 0, 0.0),
    (c.seconds_or_zero, 0.5, 0.5),
    (c.workers_pair, [2, 2], (2, 2)),
    (c.workers_pair, (1, np.int32(9)), (1, 9)),
    (c.class_weights, "balanced", "balanced"),
    (c.class_weights, {0: 1, 1: 2.5}, {"0": 1.0, "1": 2.5}),
    (
        c.shapes,
        {"x": [28, np.int64(2)], "y": (None,), "z": ()},
        {"x": [28, 2], "y": [None], "z": []},
    ),
    (c.boolean, True, True),
    (c.text, "", ""),
    (c.json_dict, {"a": [1, None]}, {"a": [1, None]}),
]

BAD: list[tuple[Any, Any, type[Exception], str]] = [
    (c.column, 3, TypeError, "must be a string, got 3"),
    (c.column, "", ValueError, "is empty"),
    (c.columns, [], ValueError, "one or more names"),
    (c.columns, ["a", "a"], ValueError, "none twice"),
    (c.columns, {}, ValueError, "at least one"),
    (c.columns, {"": "a"}, TypeError, "the name of an input"),
    (c.columns, {"x": ["a", 3]}, TypeError, "input 'x': the name of a column"),
    (c.columns, {"x": ["a", "a"]}, ValueError, "input 'x': a list of columns"),
    (c.integer(1), True, TypeError, "an integer is needed, got True"),
    (c.integer(1), 1.0, TypeError, "an integer is needed, got 1.0"),
    (c.integer(1), 0, ValueError, "must be at least 1, got 0"),
    (c.number(0.0, 1.0), True, TypeError, "a number is needed"),
    (c.number(0.0, 1.0), "1", TypeError, "a number is needed"),
    (c.number(0.0, 1.0), 1.0001, ValueError, "between 0 and 1, got 1.0001"),
    (c.number(0.0, 1.0), -0.1, ValueError, "between 0 and 1"),
    (c.number(0.0), math.inf, ValueError, "between 0 and inf"),
    (c.number(0.0), math.nan, ValueError, "got nan"),
    (c.choice("min", "max"), "maximum", ValueError, "must be one of min, max, got 'maximum'"),
    (c.choice("auto", "always"), "allways", ValueError, "Did you mean 'always'?"),
    (c.choice("min"), 3, ValueError, "got 3$"),
    (c.auto_or_boolean, "yes", ValueError, "must be one of auto"),
    (c.seconds, 0, ValueError, "more than 0 seconds"),
    (c.seconds, math.nan, ValueError, "got nan"),
    (c.seconds, True, TypeError, "a number of seconds"),
    (c.seconds_or_zero, False, TypeError, "a number of seconds"),
    (c.seconds_or_zero, -1, ValueError, "more than 0"),
    (c.workers_pair, (3, 2), ValueError, r"numWorkers=\(3, 2\): the minimum is larger"),
    (c.workers_pair, (0, 2), ValueError, "must be at least 1"),
    (c.workers_pair, (1, 2, 3), ValueError, "a pair of numbers"),
    (c.workers_pair, 4, TypeError, "a pair of numbers"),
    (c.class_weights, "even", TypeError, "'balanced' is needed, got 'even'"),
    (c.class_weights, {0: -1}, ValueError, "between 0 and inf"),
    (c.shapes, [1], TypeError, "a dictionary of name to shape"),
    (c.shapes, {"x": "28"}, TypeError, "a list of integers, got '28' for 'x'"),
    (c.shapes, {"x": [None, 2]}, ValueError, "only lists may have any length"),
    (c.shapes, {"x": [0]}, ValueError, "at least 1"),
    (c.shapes, {1: [2]}, TypeError, "a string is needed"),
    (c.boolean, 1, TypeError, "True or False"),
    (c.text, b"", TypeError, "a string is needed"),
    (c.json_dict, {1: 2}, TypeError, "strings as keys"),
    (c.json_dict, {"a": object()}, TypeError, "representable in JSON"),
]


@pytest.mark.parametrize(("convert", "given", "kept"), GOOD)
def test_good(convert: Any, given: Any, kept: Any) -> None:
    found = convert(given)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(("convert", "given", "kind", "text"), BAD)
def test_bad(convert: Any, given: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        convert(given)
