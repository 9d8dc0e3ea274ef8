"""Which node an error names, and its class."""

from collections.abc import Callable

import numpy as np
import pytest

from sparkflow_runtime.compiler.location import located, located_in, locating
from sparkflow_runtime.errors import (
    InvalidArgumentError,
    NotFoundError,
    OpError,
    ResourceExhaustedError,
    UnknownError,
)
from sparkflow_runtime.ir.node import Node

NODE = Node("layer/MatMul", "MatMul")
OTHER = Node("layer/Add", "Add")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("no"), InvalidArgumentError, "no"),
        (TypeError("no"), InvalidArgumentError, "no"),
        (IndexError("no"), InvalidArgumentError, "no"),
        (MemoryError("8 GiB"), ResourceExhaustedError, "Out of memory: 8 GiB"),
        (ZeroDivisionError("by 0"), UnknownError, "ZeroDivisionError: by 0"),
        (NotFoundError(message="no file"), NotFoundError, "no file"),
    ],
)
def test_classes(error: Exception, kind: type[OpError], text: str) -> None:
    found = located(error, NODE)
    assert type(found) is kind
    assert str(found).startswith(text)
    assert found.node_def == "layer/MatMul"
    assert "layer/MatMul" in str(found)


def test_the_first_node_that_was_named_stays() -> None:
    first = located(NotFoundError(message="no file"), NODE)
    assert located(first, OTHER).node_def == "layer/MatMul"


@pytest.mark.parametrize(
    ("left", "right", "shapes"),
    [((2, 3), (4, 3), "[2,3] vs. [4,3]"), ((2,), (3,), "[2] vs. [3]")],
)
def test_shapes_that_do_not_fit_are_written_as_tensorflow_does(
    left: tuple[int, ...], right: tuple[int, ...], shapes: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        locating(np.add, NODE)(np.zeros(left), np.zeros(right))
    assert str(caught.value).startswith(f"Incompatible shapes: {shapes}")
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_kernel_that_succeeds_is_left_alone() -> None:
    assert locating(lambda x, y: x - y, NODE)(5, 3) == 2


def failing(lines: int) -> Callable[[], None]:
    """A function that fails in its line with that number."""
    scope: dict[str, Callable[[], None]] = {}
    body = ["def run():", *["    pass"] * (lines - 2), "    raise ValueError('here')"]
    exec("\n".join(body), scope)  # noqa: S102  (as the compiler runs what it generates)
    return scope["run"]


def test_the_line_of_generated_code_tells_the_node() -> None:
    run = failing(4)
    table = [None, None, NODE, None, OTHER]
    with pytest.raises(ValueError, match="here") as caught:
        run()
    found = located_in(caught.value, {run.__code__: table})
    assert isinstance(found, InvalidArgumentError)
    assert found.node_def == "layer/Add"


def test_of_nested_calls_the_innermost_known_line_counts() -> None:
    inner = failing(3)

    def outer() -> None:
        inner()

    with pytest.raises(ValueError, match="here") as caught:
        outer()
    tables = {
        outer.__code__: [OTHER] * (outer.__code__.co_firstlineno + 5),
        inner.__code__: [None, None, None, NODE],
    }
    found = located_in(caught.value, tables)
    assert isinstance(found, OpError)
    assert found.node_def == "layer/MatMul"


def test_code_that_nobody_knows_and_errors_that_have_a_place_are_left_as_they_are() -> None:
    with pytest.raises(ValueError, match="here") as caught:
        failing(2)()
    assert located_in(caught.value, {}) is caught.value
    run = failing(2)
    with pytest.raises(ValueError, match="here") as again:
        run()
    known = NotFoundError(message="no file").with_traceback(again.value.__traceback__)
    known.located = True
    assert located_in(known, {run.__code__: [None, None, NODE]}) is known
