"""Functions written as LLVM text compute what they should."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import WRITTEN_OUT, Code, Vectors, constant

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def test_numbers_known_when_written_are_computed_then() -> None:
    code = Code()
    assert code.add(2, 3) == 5
    assert code.subtract(2, 3) == -1
    assert code.multiply(2, 3) == 6
    assert code.add("%x", 0) == "%x"
    assert code.multiply("%x", 1) == "%x"
    assert code.multiply("%x", 0) == 0


def test_loops_branches_and_variables() -> None:
    code = Code()
    (out,) = code.arrays(1)
    (limit,) = code.sizes(1)
    total = code.variable("i64", 0)
    with code.loop("%lo", "%hi", 3) as i:
        with code.when(code.compare("sgt", i, limit)):
            code.set(total, code.add(code.get(total), i))
        code.store("i64", code.larger(code.get(total), code.smaller(i, 2)), code.at("i64", out, i))
    found = np.full(11, -1)
    assert native.body(code.module()).bind([3], [11], 11)(found)
    assert found.tolist() == [0, -1, -1, 2, -1, -1, 6, -1, -1, 15, -1]


def test_turns_end_at_any_of_their_conditions() -> None:
    code = Code()
    (out,) = code.arrays(1)
    (limit,) = code.sizes(1)
    with code.loop("%lo", "%hi") as i:
        total = code.variable("i64", 0)
        with code.turns() as go_on_if:
            now = code.get(total)
            go_on_if(code.compare("slt", now, limit))
            with code.when(code.compare("eq", i, 1)):
                go_on_if(code.compare("slt", now, 2))
            code.set(total, code.add(now, 1))
        code.store("i64", code.get(total), code.at("i64", out, i))
    found = np.full(3, -1)
    assert native.body(code.module()).bind([5], [3], 3)(found)
    assert found.tolist() == [5, 2, 5]


@pytest.mark.parametrize("element", ["float", "double"])
def test_vectors_with_masks(element: str) -> None:
    kind = np.float32 if element == "float" else np.float64
    code = Code()
    vectors = Vectors(code, element, 4)
    source, target = code.arrays(2)
    (count,) = code.sizes(1)
    mask = vectors.first(count)
    value = vectors.load(source, 1, mask)
    twice = vectors.multiply_add(value, vectors.broadcast(source, 2), value)
    vectors.store(vectors.select(mask, twice, value), target, 0, mask)
    given, found = np.arange(5, dtype=kind), np.full(4, -1, kind)
    assert native.body(code.module()).bind([3], [5, 4], 1)(given, found)
    assert found.tolist() == [3, 6, 9, -1]


@pytest.mark.parametrize("has_rest", ["known", "said", "found out"])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 16, 17, 20, 21])
def test_vectors_along_a_line(count: int, has_rest: str) -> None:
    code = Code()
    vectors = Vectors(code, "float", 4)
    source, target = code.arrays(2)
    (size,) = code.sizes(1)
    three = vectors.constant(3)
    line = {
        "known": lambda: vectors.along(count),
        "said": lambda: vectors.along(size, count % 4 > 0),
        "found out": lambda: vectors.along(size),
    }[has_rest]
    for place, mask in line():
        value = vectors.multiply(vectors.load(source, place, mask), three)
        vectors.store(value, target, place, mask)
    text = code.module()
    is_known = has_rest == "known"
    assert text.count("_head:") == (not is_known or count // 4 > WRITTEN_OUT)
    given, found = np.arange(32, dtype=np.float32), np.full(32, -1, np.float32)
    assert native.body(text).bind([count], [32, 32], 1)(given, found)
    assert found.tolist() == [*(3 * given[:count]), *[-1] * (32 - count)]


@pytest.mark.parametrize("value", [1 / 3, -2.5, 0.0, 1e-40, float("inf")])
@pytest.mark.parametrize("element", ["float", "double"])
def test_constants_are_rounded_when_written(element: str, value: float) -> None:
    kind = np.float32 if element == "float" else np.float64
    code = Code()
    vectors = Vectors(code, element, 2)
    (out,) = code.arrays(1)
    vectors.store(vectors.constant(value), out, 0)
    code.store(element, constant(value, element), code.at(element, out, 2), kind().itemsize)
    found = np.zeros(3, kind)
    assert native.body(code.module()).bind([], [3], 1)(found)
    assert found.tolist() == [kind(value)] * 3
