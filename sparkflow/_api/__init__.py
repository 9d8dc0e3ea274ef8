"""The TensorFlow surface: which public names there are, and where each of them is defined.

A function that only converts arguments and adds one node is a row of a table in `_api/ops`; every
other function and class says `@export("nn.dropout")` above its definition; names that cannot carry
a decorator stand in `_api/faces.py`. `scripts/generate_api.py` reads the three without importing
the front end and writes `sparkflow/_generated` and the stubs; with `--check` it tells whether they
are up to date.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Defined = TypeVar("Defined")


def export(*names: str) -> Callable[[Defined], Defined]:
    """Declares the public names of a function or class, which stays as it is.

    The names are read from the source, and nothing is registered: a module is imported when one of
    its names is first used.

    Args:
        *names: Paths without `tf.`: `"abs"` is `tf.abs`, `"math.abs"` is `tf.math.abs`.
    """
    return _same


def _same(defined: Defined) -> Defined:
    return defined
