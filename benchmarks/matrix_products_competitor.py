"""One competitor of `matrix_products.py`, as a process: `... NAME THREADS`.

All of them write into a given array except TensorFlow, which has no such product.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from competitor import Case, serve, skip


@dataclass(frozen=True, slots=True)
class Product:
    """The product of an m × k and a k × n float32 matrix.

    Attributes:
        m, k, n: The sizes.
        turn_left, turn_right: Whether the factor is stored transposed.
    """

    m: int
    k: int
    n: int
    turn_left: bool = False
    turn_right: bool = False

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.k * self.n

    def factors(self) -> tuple[Any, Any]:
        """Returns random matrices, as stored."""
        random = np.random.default_rng(7)
        left = (self.k, self.m) if self.turn_left else (self.m, self.k)
        right = (self.n, self.k) if self.turn_right else (self.k, self.n)
        return random.random(left, np.float32), random.random(right, np.float32)


PEAK = "cube of 2048"
CASES = {
    PEAK: Product(2048, 2048, 2048),
    "512×784×1024": Product(512, 784, 1024),
    "512×1024×1024": Product(512, 1024, 1024),
    "512×1024×1024, right transposed": Product(512, 1024, 1024, turn_right=True),
    "1024×512×1024, left transposed": Product(1024, 512, 1024, turn_left=True),
    "784×512×1024, left transposed": Product(784, 512, 1024, turn_left=True),
    "512×1024×10": Product(512, 1024, 10),
    "1024×512×10, left transposed": Product(1024, 512, 10, turn_left=True),
    "512×10×1024, right transposed": Product(512, 10, 1024, turn_right=True),
    "64×3136×1024": Product(64, 3136, 1024),
    "3136×64×1024, left transposed": Product(3136, 64, 1024, turn_left=True),
    "100×784×256": Product(100, 784, 256),
    "100×256×128": Product(100, 256, 128),
    "100×128×10": Product(100, 128, 10),
    "10×10×10": Product(10, 10, 10),
    "2×2×2": Product(2, 2, 2),
    "1×1024×1024": Product(1, 1024, 1024),
}

Multiply = Callable[[Product, Any, Any], tuple[Callable[[], Any], Callable[[], Any]]]
"""Returns the function that computes a product of factors, and one that returns the result."""


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    makers = {"sparkflow": _sparkflow, "numpy": _numpy, "TensorFlow": _tensorflow, "torch": _torch}
    module = name.lower()
    if importlib.util.find_spec(module) is None:
        skip(f"{module} is not installed")
        return
    multiply = makers[name](threads)

    def make(case: str) -> Case:
        product = CASES[case]
        call, result = multiply(product, *product.factors())
        call()
        found = np.asarray(result())
        return Case(call, [found[0, 0], found[-1, -1], found[0, -1], found[-1, 0]])

    serve(make, f"{name} {getattr(sys.modules[module], '__version__', '')}".strip())


def _sparkflow(threads: int) -> Multiply:
    """As in the op: machine code, and numpy for products that it does not handle."""
    import sparkflow  # noqa: F401  (named as the software)
    from sparkflow_runtime.dtypes import float32
    from sparkflow_runtime.ops.native.matrix_products import bind_product_out

    def transposed(matrix: Any) -> Any:
        return matrix.T

    def multiply(product: Product, left: Any, right: Any) -> Any:
        fill = bind_product_out(
            float32,
            transposed if product.turn_left else None,
            transposed if product.turn_right else None,
        )
        out = np.empty((product.m, product.n), np.float32)
        return lambda: fill(left, right, out), lambda: out

    return multiply


def _numpy(threads: int) -> Multiply:
    def multiply(product: Product, left: Any, right: Any) -> Any:
        first = left.T if product.turn_left else left
        second = right.T if product.turn_right else right
        out = np.empty((product.m, product.n), np.float32)
        return lambda: np.dot(first, second, out), lambda: out

    return multiply


def _tensorflow(threads: int) -> Multiply:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)

    def multiply(product: Product, left: Any, right: Any) -> Any:
        a, b = tf.constant(left), tf.constant(right)

        def call() -> Any:
            return tf.matmul(a, b, transpose_a=product.turn_left, transpose_b=product.turn_right)

        return call, lambda: call().numpy()

    return multiply


def _torch(threads: int) -> Multiply:
    import torch

    torch.set_num_threads(threads)

    def multiply(product: Product, left: Any, right: Any) -> Any:
        a, b = torch.from_numpy(left), torch.from_numpy(right)
        a, b = (a.T if product.turn_left else a), (b.T if product.turn_right else b)
        out = torch.empty((product.m, product.n))
        return lambda: torch.mm(a, b, out=out), out.numpy

    return multiply


if __name__ == "__main__":
    main()
