"""Local response normalisation over channels and its gradient, in machine code.

Per pixel, the squares of its channels are written to a zero-padded line and summed from there. The
divisor is a power whose exponent is a multiple of a quarter, computed with square roots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, scratch, threads as pools
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors
from sparkflow_runtime.codegen.tiles.convolution_tasks import ELEMENTS
from sparkflow_runtime.codegen.tiles.tile import PARALLEL_ELEMENTS

Array = np.ndarray[Any, Any]
EXPONENTS: Final = (0.25, 0.5, 0.75, 1.0)
"""The exponents for which there is a kernel."""
_MOST_RADIUS: Final = 16
"""Maximum radius: larger sums would unroll to too much code."""


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        is_gradient: Whether it is the gradient.
        element: `float` or `double`.
        lanes: Elements per vector.
        radius: Channels to each side that count.
        bias, alpha, beta: The op's attributes.
    """

    is_gradient: bool
    element: str
    lanes: int
    radius: int
    bias: float
    alpha: float
    beta: float


def bind(
    is_gradient: bool,
    dtype: np.dtype[Any],
    rows: int,
    channels: int,
    radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Callable[..., bool] | None:
    """Returns the kernel for arrays of [rows, channels]: x, result; or dy, x, y, result.

    Args:
        is_gradient: Whether it is the gradient.
        dtype: float32 or float64.
        rows: Pixels of all images.
        channels: Channels per pixel.
        radius: Channels to each side that count.
        bias: The op's attribute.
        alpha: The op's attribute.
        beta: The op's attribute.

    Returns:
        A function that returns False, without doing anything, if an array does not fit; None if
        there is no kernel.
    """
    if not native.available() or dtype.char not in ELEMENTS or not dtype.isnative:
        return None
    radius = min(radius, channels - 1)
    if beta not in EXPONENTS or min(rows, channels) < 1 or not 0 <= radius <= _MOST_RADIUS:
        return None
    lanes = host.host().vector_bytes // dtype.itemsize
    form = Form(is_gradient, ELEMENTS[dtype.char], lanes, radius, bias, alpha, beta)
    line = _before(form) + -(-channels // lanes) * lanes + -(-radius // lanes) * lanes
    whole = rows * channels
    is_large = whole >= PARALLEL_ELEMENTS
    threads = min(pools.count(), rows) if is_large else 1
    lines = 3 if is_gradient else 1
    held = threads * line * lines
    counts = [whole] * (4 if is_gradient else 2) + [held]
    kernel = native.written_body(text, (form,), is_tidy=True).bind(
        (channels, line), counts, rows, threads, is_large
    )
    size_bytes = held * dtype.itemsize

    def run(*arrays: Array) -> bool:
        memory = scratch.take(size_bytes)[:size_bytes].view(dtype)
        memory[...] = 0
        return kernel(*arrays, memory)

    return run


def _before(form: Form) -> int:
    """Elements before the first channel of a line: the radius, rounded up to stay aligned."""
    return -(-form.radius // form.lanes) * form.lanes


def text(form: Form) -> str:
    """Returns the module; its loop is over pixels. Sizes: channels, and elements of a line."""
    return _Writer(form).text()


class _Writer:
    def __init__(self, form: Form) -> None:
        self._form = form
        self._code = Code()
        self._vectors = Vectors(self._code, form.element, form.lanes)
        self._channels, self._line = self._code.sizes(2)

    def text(self) -> str:
        code, form = self._code, self._form
        *arrays, lines = code.arrays(5 if form.is_gradient else 3)
        count = 3 if form.is_gradient else 1
        start = code.multiply("%part", code.multiply(self._line, count))
        kept = [
            code.at(
                form.element,
                lines,
                code.add(start, code.add(code.multiply(self._line, n), _before(form))),
            )
            for n in range(count)
        ]
        with code.loop("%lo", "%hi") as pixel:
            place = code.multiply(pixel, self._channels)
            at = [code.at(form.element, each, place) for each in arrays]
            if form.is_gradient:
                self._gradient(at, kept)
            else:
                self._forward(at, kept[0])
        return code.module()

    def _forward(self, arrays: list[str], squares: str) -> None:
        x, result = arrays
        self._square(x, squares)
        vectors = self._vectors
        for channel, mask in vectors.along(self._channels):
            root = self._power(self._norm(squares, channel))
            value = vectors.load(x, channel, mask)
            quotient = self._code.let(f"fdiv {vectors.kind} {value}, {root}")
            vectors.store(quotient, result, channel, mask)

    def _gradient(self, arrays: list[str], lines: list[str]) -> None:
        dy, x, y, result = arrays
        squares, norms, shares = lines
        code, vectors, form = self._code, self._vectors, self._form
        kind = vectors.kind
        self._square(x, squares)
        for channel, mask in vectors.along(self._channels):
            norm = self._norm(squares, channel)
            vectors.store(norm, norms, channel)
            product = vectors.multiply(
                vectors.load(dy, channel, mask), vectors.load(y, channel, mask)
            )
            quotient = code.let(f"fdiv {kind} {product}, {norm}")
            if mask is not None:  # the padding stays zero
                quotient = vectors.select(mask, quotient, "zeroinitializer")
            vectors.store(quotient, shares, channel)
        for channel, mask in vectors.along(self._channels):
            root = self._power(vectors.load(norms, channel))
            first = code.let(f"fdiv {kind} {vectors.load(dy, channel, mask)}, {root}")
            factor = vectors.constant(-2 * form.alpha * form.beta)
            scaled = vectors.multiply(vectors.load(x, channel, mask), factor)
            total = vectors.multiply_add(scaled, self._window(shares, channel), first)
            vectors.store(total, result, channel, mask)

    def _square(self, x: str, squares: str) -> None:
        vectors = self._vectors
        for channel, mask in vectors.along(self._channels):
            value = vectors.load(x, channel, mask)
            vectors.store(vectors.multiply(value, value), squares, channel)

    def _window(self, line: str, channel: Value) -> str:
        """Returns the sums over the channels around each."""
        vectors, radius = self._vectors, self._form.radius
        total = vectors.load(line, channel)
        for distance in range(1, radius + 1):
            for offset in (-distance, distance):
                near = vectors.load(line, self._code.add(channel, offset))
                total = vectors.add(total, near)
        return total

    def _norm(self, squares: str, channel: Value) -> str:
        vectors = self._vectors
        alpha = vectors.constant(self._form.alpha)
        bias = vectors.constant(self._form.bias)
        return vectors.multiply_add(self._window(squares, channel), alpha, bias)

    def _power(self, norm: str) -> str:
        """Raises to the power of `beta`."""
        beta = self._form.beta
        if beta == 1:
            return norm
        root = self._root(norm)
        if beta == 0.5:
            return root
        fourth = self._root(root)
        return fourth if beta == 0.25 else self._vectors.multiply(root, fourth)

    def _root(self, value: str) -> str:
        kind = self._vectors.kind
        return self._code.call(kind, f"llvm.sqrt.{self._vectors.suffix}", (kind, value))
