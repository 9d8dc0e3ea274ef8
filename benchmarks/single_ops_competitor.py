"""One competitor of `single_ops.py`, as a process: `single_ops_competitor.py NAME THREADS`.

The time of all processors is measured, which other processes disturb less.

NAME is as for `peers_competitor.py`, without torch.compile, because single ops are not compiled.
The ops are in `single_ops_cases.py`. A library that lacks an op, or fails at it, reports that and
is left out.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from competitor import Case
from peers_competitor import serve_as
from single_ops_cases import Op, all_ops


def tensorflow_case(tf: Any, threads: int, inter: int) -> Callable[[str], Case | None]:
    """Returns the ops in a session of TensorFlow or sparkflow."""
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=inter
    )

    def make(name: str) -> Case | None:
        op = all_ops()[name]
        with tf.Graph().as_default():
            held = [tf.Variable(each) for each in op.inputs]
            given = [tf.convert_to_tensor(each) for each in held]
            made = op.tf(tf, *given)
            if op.is_gradient:
                result = made[0] if isinstance(made, list) else made
                with tf.Session() as first:  # the shape may depend on values
                    first.run(tf.global_variables_initializer())
                    shape = tuple(first.run(tf.shape(result)))
                dy = tf.Variable(_gradient(shape))
                (found,) = tf.gradients(result, given[:1], tf.convert_to_tensor(dy))
                made = [found.values, found.indices] if hasattr(found, "values") else found
            initializer = tf.global_variables_initializer()
            session = tf.Session(graph=tf.get_default_graph(), config=config)
        session.run(initializer)
        call = session.make_callable(made)
        return _case(op, call)

    return _or_nothing(make)


def torch_case(torch: Any) -> Callable[[str], Case | None]:
    """Returns the ops in eager mode."""

    def make(name: str) -> Case | None:
        op = all_ops()[name]
        say = op.torch
        if say is None or any(each.dtype == object for each in op.inputs):
            return None
        given = [torch.from_numpy(np.array(each)) for each in op.inputs]
        if not op.is_gradient:

            def computed() -> Any:
                with torch.no_grad():
                    return _numpy(say(torch, *given))

            return _case(op, computed)
        first = given[0].requires_grad_(True)
        made = say(torch, *given)
        result = made[0] if isinstance(made, list) else made
        dy = torch.from_numpy(_gradient(tuple(result.shape)))

        def gradient() -> Any:  # only the backward pass
            return torch.autograd.grad(result, first, dy, retain_graph=True)[0].numpy()

        return _case(op, gradient)

    return _or_nothing(make)


def jax_case(jax: Any) -> Callable[[str], Case | None]:
    """Returns the ops under jit."""

    def make(name: str) -> Case | None:
        op = all_ops()[name]
        say = op.jax
        if say is None or any(each.dtype.itemsize == 8 for each in op.inputs):
            return None  # it has no int64
        given = [jax.numpy.asarray(each) for each in op.inputs]

        def compute(*given: Any) -> Any:
            return say(jax, *given)

        if not op.is_gradient:
            call = jax.jit(compute)
            return _case(op, lambda: jax.tree.map(np.asarray, call(*given)))

        def first(x: Any, *others: Any) -> Any:
            made = compute(x, *others)
            return made[0] if isinstance(made, list) else made

        dy = jax.numpy.asarray(_gradient(jax.eval_shape(first, *given).shape))

        def back(dy: Any, x: Any, *others: Any) -> Any:
            return jax.vjp(lambda x: first(x, *others), x)[1](dy)[0]

        gradient = jax.jit(back)
        return _case(op, lambda: np.asarray(gradient(dy, *given)))

    return _or_nothing(make)


def _gradient(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def _numpy(made: Any) -> Any:
    return [each.numpy() for each in made] if isinstance(made, list | tuple) else made.numpy()


def _or_nothing(make: Callable[[str], Case | None]) -> Callable[[str], Case | None]:
    def safe(name: str) -> Case | None:
        try:
            return make(name)
        except Exception as error:  # whatever another library raises for an op that it lacks
            text = " ".join(str(error).split())[:200]
            print(f"{sys.argv[1]}: {name}: {type(error).__name__}: {text}", file=sys.stderr)
            return None

    return safe


def _case(op: Op, call: Callable[[], Any]) -> Case:
    made = call()
    parts = made if isinstance(made, list | tuple) else [made]
    return Case(call, [] if op.is_random else [n for each in parts for n in _checks(each)])


def _checks(array: Any) -> list[float]:
    """Returns numbers that differ if values, signs or positions do, none close to 0 by chance."""
    array = np.asarray(array)
    if array.dtype == object:
        return [float(zlib.crc32(b"\0".join(array.reshape(-1).tolist())))]
    values = np.asarray(array, np.float64).reshape(-1)
    missing = np.isnan(values)
    values = np.clip(np.where(missing, 0, values), -1e30, 1e30)
    weights = np.random.default_rng(2).uniform(0.5, 1.5, values.size)
    size = np.sqrt(np.mean(values**2)) if values.size else 0.0
    found = [values.size, missing.sum(), np.sum(weights * values**2), size]
    return [float(each) for each in [*found, np.sum(weights * (values + size) ** 2)]]


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    serve_as(
        *(name, threads, jax_case, lambda torch, _: torch_case(torch), tensorflow_case),
        time.process_time,
    )


if __name__ == "__main__":
    main()
