"""Runs one case with any module that has TensorFlow 1's interface, and records the answer.

Used by `scripts/generate_differential_golden.py` with TensorFlow and by `test_differential.py` with
sparkflow, so that both answer the same questions. Imports neither.
"""

# ruff: noqa: S102, S307  (the code that is run is the repository's own cases)

import builtins
from typing import Any

import numpy as np

KEPT = 8
"""The number of recorded elements of an array; two sums represent the others."""


def split(text: str) -> list[str]:
    """The cases of a family: one per line, or blocks of lines after a line `---`."""
    cases = []
    first, *blocks = text.split("\n---\n")
    cases += [line for line in first.splitlines() if line.strip() and line[0] != "#"]
    cases += [block.strip("\n") for block in blocks if block.strip()]
    return cases


def answer(
    tf: Any, preamble: str, case: str, with_respect_to: Any = (), second_order: bool = False
) -> dict[str, Any]:
    """Returns the result of a case: dtypes, values and gradients, or the exception."""
    when = "building"
    try:
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            names: dict[str, Any] = {"tf": tf, "np": np}
            exec(preamble, names)
            *statements, expression = case.splitlines()
            exec("\n".join(statements), names)
            found = eval(expression, names)
            flat = list(_leaves(tf, found))
            gradients = _gradients(tf, flat, names, with_respect_to, second_order)
            start = [
                tf.global_variables_initializer(),
                tf.local_variables_initializer(),
                tf.tables_initializer(),
            ]
            with tf.Session() as session:
                when = "running"
                session.run(start)
                symbolic = [each for each in flat if _is_symbolic(tf, each)]
                values = iter(session.run(symbolic))
                result = [
                    _written(tf, each, next(values) if _is_symbolic(tf, each) else each)
                    for each in flat
                ]
                slopes = {name: _numbers(value) for name, value in session.run(gradients).items()}
        return {"values": result, **({"gradients": slopes} if slopes else {})}
    except Exception as error:
        return {"raises": kind(tf, error), "when": when}


def kind(tf: Any, error: Exception) -> str:
    """Returns the first of the exception's classes that Python or `tf.errors` provides."""
    for each in type(error).__mro__:
        if hasattr(builtins, each.__name__) or hasattr(tf.errors, each.__name__):
            return each.__name__
    return type(error).__name__


def _leaves(tf: Any, found: Any) -> Any:
    if isinstance(found, tf.SparseTensor):
        yield from (found.indices, found.values, found.dense_shape)
    elif isinstance(found, tf.IndexedSlices):
        yield from (found.indices, found.values)
    elif isinstance(found, dict):
        for key in sorted(found):
            yield from _leaves(tf, found[key])
    elif isinstance(found, list | tuple) and not isinstance(found, str):
        for each in found:
            yield from _leaves(tf, each)
    else:
        yield found


def _is_symbolic(tf: Any, each: Any) -> bool:
    return isinstance(each, tf.Tensor | tf.Operation | tf.Variable)


def _gradients(
    tf: Any, flat: list[Any], names: dict[str, Any], with_respect_to: Any, second_order: bool
) -> dict[str, Any]:
    real = [t for t in flat if isinstance(t, tf.Tensor) and t.dtype.base_dtype.is_floating]
    gradients = {}
    if real and with_respect_to:
        # Half floats would accumulate rounding errors; the sum of squares weighs every element.
        squares = tf.add_n([tf.reduce_sum(tf.square(tf.cast(t, tf.float64))) for t in real])
        for name in with_respect_to:
            (slope,) = tf.gradients(squares, names[name])
            if slope is None:
                continue
            slope = tf.convert_to_tensor(slope)
            gradients[name] = slope
            if second_order:
                (again,) = tf.gradients(tf.reduce_sum(slope * slope), names[name])
                if again is not None:
                    gradients[f"{name} twice"] = tf.convert_to_tensor(again)
    return gradients


def _written(tf: Any, each: Any, value: Any) -> dict[str, Any]:
    if isinstance(each, tf.Tensor | tf.Variable):
        return {
            "dtype": each.dtype.base_dtype.name,
            "static": str(each.shape),
            **_numbers(value),
        }
    if isinstance(each, tf.Operation):
        return {"operation": each.type}
    if isinstance(each, np.ndarray | np.generic):
        return _numbers(each)
    return {"repr": repr(each)}


def _numbers(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    shape = list(array.shape)
    if array.dtype == object or array.dtype.kind in "SU":
        texts = [v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in array.ravel()]
        return {"shape": shape, "texts": texts}
    if array.dtype.names or array.dtype.kind == "V":
        return {"shape": shape}
    if array.dtype.kind == "c":
        numbers = np.stack([array.real, array.imag], -1).astype(np.float64).ravel()
    else:
        numbers = array.astype(np.float64).ravel()
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    sums = [finite.sum(), (finite * np.arange(1, finite.size + 1)).sum(), np.abs(finite).sum()]
    return {
        "shape": shape,
        "first": [_short(number) for number in numbers[:KEPT]],
        "sums": [_short(number) for number in sums],
    }


def _short(number: float) -> Any:
    return float(f"{number:.8g}") if np.isfinite(number) else str(number)
