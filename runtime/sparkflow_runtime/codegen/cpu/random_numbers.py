"""Random numbers of a numpy generator, drawn in machine code: the same as numpy would draw.

A generator's bits come from functions whose addresses numpy exposes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code, constant
from sparkflow_runtime.dtypes import DType, float32, float64, int32
from sparkflow_runtime.once import once

MOST_CLASSES: Final = 4096
_LOG2_E: Final = "0x3FF71547652B82FE"
_LN_2: Final = ("0x3FE62E42FEE00000", "0x3DEA39EF35793C76")
"""Upper and lower part of the logarithm of 2, as in fdlibm's e_exp.c (Sun, 1993)."""
_EXPONENTIAL_TERMS: Final = 14
"""Terms of the exponential series: up to ln 2 / 2 the next one is below 1e-18."""
_SHARES: Final = {float32: "float", float64: "double"}
LOGITS: Final = tuple(_SHARES)


def bind_uniform(generator: np.random.Generator, dtype: DType, count: int) -> Callable[..., bool]:
    """Returns a function that fills an array with numbers in [0, 1), as `generator.random` does.

    The caller must hold a reference to the generator, and its lock.

    Args:
        generator: The generator to draw from.
        dtype: float32 or float64.
        count: Elements of the array.
    """
    bits = generator.bit_generator.ctypes
    function = bits.next_uint32 if dtype is float32 else bits.next_double
    address = ctypes.cast(function, ctypes.c_void_p).value
    sizes = (address or 0, int(bits.state_address), count)
    return _uniform(dtype).bind(sizes, [entry.NOT_COUNTED], 0)


def bind_classes(
    generator: np.random.Generator,
    dtype: DType,
    rows: int,
    classes: int,
    samples: int,
    index: DType,
) -> Callable[..., bool]:
    """Returns a function of logits, the drawn class numbers that it fills, and an int32.

    Classes have the probabilities softmax(logits), sampled with one number in [0, 1) each, drawn
    row by row. The int32 becomes 0, or 1 if the maximum of a row's logits is not finite. The caller
    holds the generator and its lock, as for `bind_uniform`.

    Args:
        generator: The generator to draw from.
        dtype: The dtype of the logits, float32 or float64.
        rows: Rows of the logits.
        classes: Columns of the logits, 1 to `MOST_CLASSES`.
        samples: Samples per row.
        index: Dtype of the class numbers, int32 or int64.
    """
    bits = generator.bit_generator.ctypes
    address = ctypes.cast(bits.next_double, ctypes.c_void_p).value
    sizes = (address or 0, int(bits.state_address), rows, classes, samples)
    return _classes(dtype, index).bind(sizes, [entry.NOT_COUNTED] * 3, 0)


@once
def is_as_numpys(dtype: DType) -> bool:
    """Whether this version of numpy converts bits to numbers in the way assumed here."""
    if dtype not in _SHARES or not native.available():
        return False
    expected, found = np.empty(8, dtype.numpy), np.empty(8, dtype.numpy)
    bind_uniform(np.random.Generator(np.random.Philox(1)), dtype, 8)(found)
    np.random.Generator(np.random.Philox(1)).random(dtype=dtype.as_numpy_dtype, out=expected)
    return bool((found == expected).all())


@once
def _uniform(dtype: DType) -> native.Body:
    code, kind = Code(), _SHARES[dtype]
    function, state, count = code.sizes(3)
    (out,) = code.arrays(1)
    draw, given = (code.let(f"inttoptr i64 {each} to ptr") for each in (function, state))
    with code.loop(0, count) as i:
        if dtype is float32:
            bits = code.let(f"call i32 {draw}(ptr {given})")
            whole = code.let(f"uitofp i32 {code.let(f'lshr i32 {bits}, 8')} to float")
            value = code.let(f"fmul float {whole}, 0x3E70000000000000")  # 2 to the power of -24
        else:
            value = code.let(f"call double {draw}(ptr {given})")
        code.store(kind, value, code.at(kind, out, i), dtype.size)
    return native.body(code.module())


@once
def _classes(dtype: DType, index: DType) -> native.Body:
    code, kind, into = Code(), _SHARES[dtype], "i32" if index is int32 else "i64"
    function, state, rows, classes, samples = code.sizes(5)
    logits, out, failure = code.arrays(3)
    draw, given = (code.let(f"inttoptr i64 {each} to ptr") for each in (function, state))
    sums, total = code.variable(f"[{MOST_CLASSES} x double]"), code.variable("double")
    most, place = code.variable("double"), code.variable("i64")
    code.store("i32", 0, failure, 4)

    def logit(row: str, column: str) -> str:
        at = code.at(kind, logits, code.add(code.multiply(row, classes), column))
        value = code.load(kind, at, dtype.size)
        return value if kind == "double" else code.let(f"fpext float {value} to double")

    with code.loop(0, rows) as row:
        code.set(most, "0xFFF0000000000000", "double")
        with code.loop(0, classes) as column:
            so_far = (("double", code.get(most, "double")), ("double", logit(row, column)))
            larger = code.call("double", "llvm.maximum.f64", *so_far)  # NaN if there is one
            code.set(most, larger, "double")
        largest = code.get(most, "double")
        size = code.call("double", "llvm.fabs.f64", ("double", largest))
        is_number = code.let(f"fcmp olt double {size}, 0x7FF0000000000000")
        with code.unless(is_number):
            code.store("i32", 1, failure, 4)
        with code.when(is_number):
            code.set(total, "0.0", "double")
            with code.loop(0, classes) as column:
                weight = _exponential(
                    code, code.let(f"fsub double {logit(row, column)}, {largest}")
                )
                following = code.let(f"fadd double {code.get(total, 'double')}, {weight}")
                code.set(total, following, "double")
                code.store("double", following, code.at("double", sums, column))
            whole = code.get(total, "double")
            with code.loop(0, samples) as sample:
                share = code.let(f"call double {draw}(ptr {given})")
                point = code.let(f"fmul double {share}, {whole}")
                code.set(place, 0)
                with code.loop(0, classes) as column:
                    before = code.load("double", code.at("double", sums, column))
                    is_before = code.let(f"fcmp ole double {before}, {point}")
                    more = code.let(f"zext i1 {is_before} to i64")
                    code.set(place, code.add(code.get(place), more))
                found = code.get(place)
                if into == "i32":
                    found = code.let(f"trunc i64 {found} to i32")
                target = code.add(code.multiply(row, samples), sample)
                code.store(into, found, code.at(into, out, target), index.size)
    return native.body(code.module())


def _exponential(code: Code, x: str) -> str:
    """The exponential of a non-positive number."""
    is_small = code.let(f"fcmp olt double {x}, -7.08e+02")
    x = code.let(f"select i1 {is_small}, double -7.08e+02, double {x}")
    turns = code.let(f"fmul double {x}, {_LOG2_E}")
    turns = code.call("double", "llvm.rint.f64", ("double", turns))
    rest = x
    for part in _LN_2:
        product = code.let(f"fmul double {turns}, {part}")
        rest = code.let(f"fsub double {rest}, {product}")
    series = "1.0"
    for n in range(_EXPONENTIAL_TERMS, 0, -1):
        product = code.let(f"fmul double {series}, {rest}")
        term = code.let(f"fmul double {product}, {constant(1 / n, 'double')}")
        series = code.let(f"fadd double {term}, 1.0")
    power = code.let(f"fptosi double {turns} to i64")
    bits = code.let(f"shl i64 {code.add(power, 1023)}, 52")
    result = code.let(f"fmul double {series}, {code.let(f'bitcast i64 {bits} to double')}")
    return code.let(f"select i1 {is_small}, double 0.0, double {result}")
