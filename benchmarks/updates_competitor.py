"""One competitor of `updates.py`, as a process: `updates_competitor.py NAME THREADS`.

Only the update is measured: the gradients already exist.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import session_competitor
from competitor import Case, load_torch, serve

BETA1, BETA2, EPSILON, ADAM_RATE = 0.9, 0.999, 1e-8, 1e-3
SGD_RATE = 0.01
CHECKED_STEPS = 3


@dataclass(frozen=True, slots=True)
class Work:
    """A case: the update rule and the variables.

    Attributes:
        rule: `sgd` or `adam`.
        shapes: The shapes of the variables.
        rows: How many rows of each have a gradient; 0 if all do.
    """

    rule: str
    shapes: Sequence[tuple[int, ...]]
    rows: int = 0

    def arrays(self, seed: int) -> list[Any]:
        """Returns one array per variable."""
        generator = np.random.default_rng(seed)
        return [generator.standard_normal(shape, np.float32) for shape in self.shapes]

    def gradients(self, tf: Any) -> list[Any]:
        """Returns the gradient of each variable, a constant or constant rows."""
        arrays = self.arrays(1)
        if not self.rows:
            return [tf.constant(array) for array in arrays]
        generator = np.random.default_rng(2)
        ids = [generator.integers(0, len(array), self.rows) for array in arrays]
        return [
            tf.IndexedSlices(tf.constant(array[each]), tf.constant(each), tf.constant(array.shape))
            for array, each in zip(arrays, ids, strict=True)
        ]


WORK = {
    f"{rule}_{size}": Work(rule, sizes)
    for rule in ("sgd", "adam")
    for size, sizes in (("large", [(1_800_000,)]), ("small", [(1000,)] * 200))
}
WORK["adam_rows_large"] = Work("adam", [(100_000, 64)], rows=512)
WORK["adam_rows_small"] = Work("adam", [(1000, 16)] * 26, rows=512)


def framework_case(tf: Any, threads: int) -> Callable[[str], Case | None]:
    """Returns the cases as a TensorFlow 1 program; see `session_competitor.framework_case`."""

    def make(name: str) -> Case | None:
        work = WORK[name]
        with tf.Graph().as_default():
            optimizer = (
                tf.train.GradientDescentOptimizer(SGD_RATE)
                if work.rule == "sgd"
                else tf.train.AdamOptimizer(ADAM_RATE, BETA1, BETA2, EPSILON)
            )
            variables = [tf.Variable(value) for value in work.arrays(0)]
            gradients = work.gradients(tf)
            update = optimizer.apply_gradients(zip(gradients, variables, strict=True))
            running = session_competitor.session_maker(tf, threads)()
            running.run(tf.global_variables_initializer())
            call = running.make_callable(update)
            for _ in range(CHECKED_STEPS):
                call()
            return Case(call, np.ravel(running.run(variables[0]))[:5])

    return make


@dataclass(frozen=True, slots=True)
class Node:
    """The information about a node for kernels."""

    name: str
    op: str
    attrs: Mapping[str, Any]


def group_case(name: str) -> Case | None:
    """The necessary part of a session: sparkflow's kernel for all variables at once."""
    import sparkflow_runtime.ops.all  # noqa: F401  (fills the registry)
    from sparkflow_runtime import dtypes
    from sparkflow_runtime.ops import registry
    from sparkflow_runtime.ops.optimizers import update_group

    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from support.eager import EagerBuilder

    work, builder = WORK[name], EagerBuilder()
    if work.rows:
        return None
    op = registry.lookup("ApplyGradientDescent" if work.rule == "sgd" else "ApplyAdam")
    slots = 0 if work.rule == "sgd" else 2
    attrs = {"T": dtypes.float32, **dict.fromkeys(op.signature.attrs.keys() - {"T"}, False)}
    rates = [SGD_RATE] if work.rule == "sgd" else [BETA1, BETA2, ADAM_RATE, BETA1, BETA2, EPSILON]
    scalars = [np.array(rate, np.float32) for rate in rates]
    sets = []
    for value, gradient in zip(work.arrays(0), work.arrays(1), strict=True):
        empty = [np.zeros_like(value) for _ in range(slots)]
        variables = [builder.variable(array).value for array in (value, *empty)]
        sets.append((*variables, *scalars, gradient))
    update = update_group.bind([Node("update", op.op_type, attrs)] * len(sets), builder.context)
    return None if update is None else Case(lambda: update(sets), [])


def limit_case(name: str) -> Case | None:
    """Copies as many bytes as the update reads and writes."""
    arrays = WORK[name].arrays(0)
    targets = [np.empty_like(array) for array in arrays]
    # Arrays; a copy moves two.
    moved = {"sgd": 2, "adam": 6}[WORK[name].rule] + (not WORK[name].rows)

    def copy() -> None:
        for target, array in zip(targets, arrays, strict=True):
            np.copyto(target, array)

    return Case(copy, [], share=moved / 2)


def torch_case(torch: Any) -> Callable[[str], Case | None]:
    """PyTorch's optimizers, with their default implementation."""

    def make(name: str) -> Case | None:
        work = WORK[name]
        if work.rows:
            return None
        parameters = [torch.from_numpy(value).requires_grad_() for value in work.arrays(0)]
        for parameter, gradient in zip(parameters, work.arrays(1), strict=True):
            parameter.grad = torch.from_numpy(gradient)
        optimizer = (
            torch.optim.SGD(parameters, SGD_RATE)
            if work.rule == "sgd"
            else torch.optim.Adam(parameters, ADAM_RATE, (BETA1, BETA2), EPSILON)
        )
        for _ in range(CHECKED_STEPS):
            optimizer.step()
        return Case(optimizer.step, parameters[0][:5].tolist())

    return make


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    if name == "limit":
        serve(limit_case)
    elif name == "group":
        serve(group_case)
    elif name == "torch":
        torch = load_torch(threads)
        if torch is not None:
            serve(torch_case(torch), f"torch {torch.__version__}")
    elif (framework := session_competitor.load(name)) is not None:
        serve(framework_case(framework, threads), f"{name} {framework.__version__}")


if __name__ == "__main__":
    main()
