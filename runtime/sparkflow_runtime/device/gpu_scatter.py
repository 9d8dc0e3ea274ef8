"""Scatters values into an array on the GPU; several values may go to one element.

cupy (as of 14.2) has `add.at` for some dtypes, `subtract.at` only for 32-bit integers, no
`multiply.at`, and its `maximum.at` and `minimum.at` of float64 round to float32. A compare-and-swap
kernel does the rest. The order in which values reach an element is undefined, so floating-point
sums may differ in their last bits from run to run.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.gpu_kernels import OPTIONS
from sparkflow_runtime.once import Once

_BLOCK: Final = 256
_ADDED: Final = frozenset(map(np.dtype, ("f2", "f4", "f8", "i4", "i8", "u4", "u8")))
"""What cupy adds atomically."""

_COMBINED: Final = {
    "maximum": "(a >= b || a != a) ? a : b",  # NaN stays, as in numpy
    "minimum": "(a <= b || a != a) ? a : b",
    "multiply": "a * b",
    "divide": "a / b",
}
_WORDS: Final = {4: "unsigned int", 8: "unsigned long long"}
_TYPES: Final = {
    np.dtype("f4"): ("float", "__uint_as_float(word)", "__float_as_uint(value)"),
    np.dtype("f8"): (
        "double",
        "__longlong_as_double((long long)word)",
        "(unsigned long long)__double_as_longlong(value)",
    ),
    np.dtype("i4"): ("int", "(int)word", "(unsigned int)value"),
    np.dtype("u4"): ("unsigned int", "word", "value"),
    np.dtype("i8"): ("long long", "(long long)word", "(unsigned long long)value"),
    np.dtype("u8"): ("unsigned long long", "word", "value"),
}
"""The C type of an element, the conversions word to element and element to word."""

_SOURCE: Final = """
typedef {word} Word;
typedef {element} Element;
static __device__ Element element_of(Word word) {{ return {of_word}; }}
static __device__ Word word_of(Element value) {{ return {of_element}; }}
extern "C" __global__ void combine(Element* whole, const long long* places,
                                   const Element* values, long long count, long long step) {{
    long long number = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= count) return;
    Word* place = (Word*)(whole + places[number]);
    const Element b = values[number * step];
    Word seen = *place;
    for (;;) {{
        const Element a = element_of(seen);
        const Word wanted = word_of({combined});
        if (wanted == seen) return;
        const Word found = atomicCAS(place, seen, wanted);
        if (found == seen) return;
        seen = found;
    }}
}}
"""


def source(how: str, dtype: np.dtype[Any]) -> str:
    """Returns the CUDA C of the function `combine`.

    Args:
        how: `maximum`, `minimum`, `multiply` or `divide`.
        dtype: Of 32 or 64 bits.
    """
    element, of_word, of_element = _TYPES[dtype]
    return _SOURCE.format(
        word=_WORDS[dtype.itemsize],
        element=element,
        of_word=of_word,
        of_element=of_element,
        combined=_COMBINED[how],
    )


_modules: Once[tuple[Any, str, str], Any] = Once()
"""Compiled sources by array module and operation: cupy loads them on each GPU."""


def combine_at(cupy: Any, how: str, whole: Any, places: Any, values: Any) -> None:
    """Does the same as `getattr(numpy, how).at(whole, places, values)`, on the current stream.

    Args:
        cupy: The module.
        how: `add`, `subtract`, `maximum`, `minimum`, `multiply` or `divide`.
        whole: [n], contiguous, of real or complex numbers.
        places: [m] of int64, each of [0, n).
        values: [m], or a scalar, of the same dtype.
    """
    dtype = whole.dtype
    if how == "subtract":
        how, values = "add", cupy.negative(values)  # equivalent, also when integers wrap around
    if how == "add" and dtype.kind == "c":
        for part in ("real", "imag"):
            of_whole = getattr(whole, part)  # a view
            numbers = of_whole.copy()
            cupy.add.at(numbers, places, getattr(values, part))
            of_whole[...] = numbers
    elif how == "add" and dtype in _ADDED:
        cupy.add.at(whole, places, values)
    elif dtype in _TYPES:
        _swap(cupy, how, whole, places, values)
    else:  # 8 or 16 bits: integers wrap around when they are cast back
        wide = whole.astype(np.float32 if dtype.kind == "f" else np.int32)
        combine_at(cupy, how, wide, places, values.astype(wide.dtype))
        whole[...] = wide.astype(dtype)


def _swap(cupy: Any, how: str, whole: Any, places: Any, values: Any) -> None:
    if not places.size:
        return
    key = cupy, how, whole.dtype.str
    module = _modules.get(
        key, lambda: cupy.RawModule(code=source(how, whole.dtype), options=OPTIONS)
    )
    arrays = whole, cupy.ascontiguousarray(places), cupy.ascontiguousarray(values)
    numbers = np.int64(places.size), np.int64(values.ndim > 0)
    grid = (-(-places.size // _BLOCK), 1)
    module.get_function("combine")(grid, (_BLOCK, 1), (*arrays, *numbers))
