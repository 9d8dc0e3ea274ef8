"""One competitor of `programs.py`, as a process: `programs_competitor.py NAME THREADS`.

NAME is as for `peers_competitor.py`; the programs are those of `programs.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from competitor import Case
from peers_competitor import serve_as
from programs_cases import PROGRAMS as CASES, Program
from programs_loops import LOOPS
from programs_methods import METHODS
from programs_models import MODELS
from programs_recurrences import RECURRENCES
from programs_words import JaxWords, TensorFlowWords, TorchWords

PROGRAMS = {**CASES, **LOOPS, **RECURRENCES, **MODELS, **METHODS}
RATE, ADAM_RATE, MOST_NORM = 0.05, 1e-3, 1.0
MOMENTUM = DECAY = 0.9
INITIAL = 0.1
"""The initial value of Adagrad's accumulators."""


def tensorflow_case(tf: Any, threads: int, inter: int) -> Callable[[str], Case]:
    """Returns the programs in a session of TensorFlow or sparkflow."""
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=inter
    )
    optimizers = {
        "sgd": lambda: tf.train.GradientDescentOptimizer(RATE),
        "momentum": lambda: tf.train.MomentumOptimizer(RATE, MOMENTUM),
        "adagrad": lambda: tf.train.AdagradOptimizer(RATE, INITIAL),
        "rmsprop": lambda: tf.train.RMSPropOptimizer(ADAM_RATE, DECAY),
        "adam": lambda: tf.train.AdamOptimizer(ADAM_RATE),
        "clipped": lambda: tf.train.AdamOptimizer(ADAM_RATE),
    }

    def fetches(program: Program, made: Any, held: Sequence[Any]) -> Any:
        if program.optimizer is None:
            return made
        if not program.optimizer:
            return [tf.convert_to_tensor(each) for each in tf.gradients(made, held)]
        optimizer = optimizers[program.optimizer]()
        pairs = optimizer.compute_gradients(made)
        if program.optimizer == "clipped":
            gradients, _ = tf.clip_by_global_norm([each for each, _ in pairs], MOST_NORM)
            pairs = [(each, of) for each, (_, of) in zip(gradients, pairs, strict=True)]
        return made, optimizer.apply_gradients(pairs)

    def make(name: str) -> Case:
        program = PROGRAMS[name]
        with tf.Graph().as_default():
            held = {key: tf.Variable(each, name=key) for key, each in program.parameters.items()}
            feed, given = {}, {}
            for key, each in program.data.items():
                if program.fed:
                    given[key] = tf.placeholder(each.dtype, each.shape)
                    feed[given[key]] = each
                else:
                    given[key] = tf.constant(each)
            made = program.compute(TensorFlowWords(tf), held, given)
            wanted = fetches(program, made, list(held.values()))
            initializer = tf.global_variables_initializer()
            session = tf.Session(graph=tf.get_default_graph(), config=config)
        session.run(initializer)
        is_step = bool(program.optimizer)
        return _case(lambda: session.run(wanted, feed)[0] if is_step else session.run(wanted, feed))

    return make


def jax_case(jax: Any) -> Callable[[str], Case]:
    """Returns the programs under jit."""
    jnp, tree = jax.numpy, jax.tree.map

    def start(optimizer: str, p: Any) -> Any:
        zeros = [tree(jnp.zeros_like, p) for _ in range(2)]
        match optimizer:
            case "sgd":
                return ()
            case "momentum":
                return zeros[:1]
            case "adagrad":
                return [tree(lambda each: each + INITIAL, zeros[0])]
            case "rmsprop":
                return [tree(lambda each: each + 1, zeros[0])]
        return [*zeros, jnp.zeros(())]

    def updated(optimizer: str, p: Any, g: Any, state: Any) -> Any:
        if optimizer == "sgd":
            return tree(lambda p, g: p - RATE * g, p, g), state
        if optimizer == "momentum":
            moved = tree(lambda m, g: MOMENTUM * m + g, state[0], g)
            return tree(lambda p, m: p - RATE * m, p, moved), [moved]
        if optimizer == "adagrad":
            sums = tree(lambda a, g: a + g * g, state[0], g)
            return tree(lambda p, g, a: p - RATE * g / jnp.sqrt(a), p, g, sums), [sums]
        if optimizer == "rmsprop":
            means = tree(lambda a, g: DECAY * a + (1 - DECAY) * g * g, state[0], g)
            root = tree(lambda a: jnp.sqrt(a + 1e-10), means)
            return tree(lambda p, g, a: p - ADAM_RATE * g / a, p, g, root), [means]
        if optimizer == "clipped":
            norm = jnp.sqrt(sum(jnp.sum(each * each) for each in jax.tree.leaves(g)))
            g = tree(lambda each: each * jnp.minimum(MOST_NORM / norm, 1.0), g)
        first, second, count = state
        count += 1
        first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, g)
        second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, second, g)
        rate = ADAM_RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        p = tree(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), p, first, second)
        return p, [first, second, count]

    def make(name: str) -> Case:
        program, words = PROGRAMS[name], JaxWords(jax)
        parameters = tree(jnp.asarray, program.parameters)
        narrow = {  # it has no int64
            key: each.astype(np.int32) if each.dtype == np.int64 else each
            for key, each in program.data.items()
        }
        data = narrow if program.fed else tree(jnp.asarray, narrow)

        def compute(p: Any, d: Any) -> Any:
            return program.compute(words, p, d)

        optimizer = program.optimizer
        if not optimizer:
            call = jax.jit(compute if optimizer is None else jax.grad(compute))
            return _case(lambda: jax.tree.leaves(tree(np.asarray, call(parameters, data))))

        def step(p: Any, state: Any, d: Any) -> Any:
            value, gradients = jax.value_and_grad(compute)(p, d)
            return value, *updated(optimizer, p, gradients, state)

        compiled = jax.jit(step, donate_argnums=(0, 1))
        held = [parameters, start(optimizer, parameters)]

        def run() -> Any:
            value, *held[:] = compiled(*held, data)
            jax.block_until_ready(held[0])
            return float(value)

        return _case(run)

    return make


def torch_case(torch: Any, compiled: bool) -> Callable[[str], Case | None]:
    """Returns the programs, eager or with `torch.compile`."""
    optim = torch.optim
    optimizers = {
        "sgd": lambda of: optim.SGD(of, RATE),
        "momentum": lambda of: optim.SGD(of, RATE, MOMENTUM),
        "adagrad": lambda of: optim.Adagrad(of, RATE, initial_accumulator_value=INITIAL),
        "rmsprop": lambda of: optim.RMSprop(of, ADAM_RATE, DECAY),
        "adam": lambda of: optim.Adam(of, ADAM_RATE),
        "clipped": lambda of: optim.Adam(of, ADAM_RATE),
    }

    def make(name: str) -> Case | None:
        program = PROGRAMS[name]
        if compiled and (program.is_loop or program.is_sparse):
            return None
        words, needs = TorchWords(torch, program.is_sparse), program.optimizer is not None
        held = {
            key: torch.from_numpy(np.array(each)).requires_grad_(needs)
            for key, each in program.parameters.items()
        }
        data = {key: torch.from_numpy(each) for key, each in program.data.items()}

        def plain(p: Any, d: Any) -> Any:
            return program.compute(words, p, d)

        compute = torch.compile(plain) if compiled else plain
        parameters = list(held.values())
        if program.optimizer is None:

            def computed() -> Any:
                with torch.no_grad():
                    made = compute(held, data)
                return [each.numpy() for each in (made if isinstance(made, tuple) else [made])]

            return _case(computed)
        if not program.optimizer:
            return _case(
                lambda: [
                    each.numpy() for each in torch.autograd.grad(compute(held, data), parameters)
                ]
            )
        optimizer = optimizers[program.optimizer](parameters)
        update = torch.compile(optimizer.step) if compiled else optimizer.step

        def step() -> float:
            optimizer.zero_grad()
            value = compute(held, data)
            value.backward()
            if program.optimizer == "clipped":
                torch.nn.utils.clip_grad_norm_(parameters, MOST_NORM)
            update()
            return float(value.detach())

        # Its RMSProp starts from other means, and its clipping adds an epsilon to the norm.
        return _case(step, is_compared=program.optimizer not in ("rmsprop", "clipped"))

    return make


def _case(call: Callable[[], Any], is_compared: bool = True) -> Case:
    """Returns the check: the mean squares of the results of five calls."""
    found = []
    for _ in range(5):
        made = call()
        parts = made if isinstance(made, list | tuple) else [made]
        found += [float(np.mean(np.square(np.asarray(each, np.float64)))) for each in parts]
    return Case(call, found if is_compared else [])


def main() -> None:
    serve_as(sys.argv[1], int(sys.argv[2]), jax_case, torch_case, tensorflow_case)


if __name__ == "__main__":
    main()
