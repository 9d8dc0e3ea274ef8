"""One competitor of `peers.py`, as a process: `peers_competitor.py NAME THREADS`.

NAME is sparkflow, TensorFlow, "TensorFlow, inter -1", JAX, torch or torch.compile. The cases are
those of `executor.py`, `loops.py` and `networks.py`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import executor_competitor
import loops_competitor
import networks
import session_competitor
from competitor import Case, load_jax, load_torch, serve

LOOPS = ("cell", "cell_gradient", "lstm", "dynamic_rnn")
Make = Callable[[str], Case | None]
INLINE = "TensorFlow, inter -1"
"""TensorFlow with the caller's thread for all small ops."""


def framework_case(tf: Any, threads: int, inter: int) -> Make:
    """Returns the cases as TensorFlow 1 programs."""
    own = tf.ConfigProto

    def config(**settings: Any) -> Any:
        return own(**(settings | {"inter_op_parallelism_threads": inter}))

    tf.ConfigProto = config
    others = executor_competitor.framework_case(tf, threads)
    loops = loops_competitor.cases(tf, threads)
    session = session_competitor.session_maker(tf, threads)

    def make(name: str) -> Case | None:
        if name in LOOPS:
            return loops(name)
        if name not in networks.NETWORKS:
            return others(name)
        if name == "residual_nchw" and tf.__name__ != "sparkflow":
            return None  # its CPU kernels support only one data format
        values, data = networks.NETWORKS[name]()
        data = networks.channels_first(name, data)
        with tf.Graph().as_default():
            held = {key: tf.Variable(each, name=key) for key, each in values.items()}
            given = {key: tf.constant(each) for key, each in data.items()}
            loss = networks.tf_loss(tf, name, held, given)
            optimizer = tf.train.GradientDescentOptimizer(networks.RATE)
            return session_competitor.training_case(tf, session, loss, optimizer, dict)

    return make


def torch_case(torch: Any, compiled: bool) -> Make:
    """Returns the cases in PyTorch."""
    import loops_torch
    import networks_torch
    import torch_competitor

    # torch.compile takes minutes for 50 unrolled steps.
    loops = loops_torch.Cases(torch, compiled=False)
    others = torch_competitor.Cases(torch, compiled)

    def make(name: str) -> Case | None:
        if name in LOOPS:
            return None if compiled else loops.make(name)
        return networks_torch.make(torch, name, compiled) or others.make(name)

    return make


def jax_case(jax: Any) -> Make:
    """Returns the cases in JAX."""
    import loops_jax
    import networks_jax

    loops = loops_jax.cases(jax)
    return lambda name: loops(name) if name in LOOPS else networks_jax.make(jax, name)


def serve_as(
    name: str,
    threads: int,
    jax: Callable[[Any], Make],
    torch: Callable[[Any, bool], Make],
    framework: Callable[[Any, int, int], Make],
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Serves the cases of a competitor if it is installed.

    Args:
        name: See the module's docstring.
        threads: Its number of threads.
        jax: Returns the cases in JAX.
        torch: Returns the cases in PyTorch, compiled or not.
        framework: Returns the cases as TensorFlow 1 programs, with given intra-op and inter-op
            threads.
        clock: Returns the seconds to measure with.
    """
    if name == "JAX":
        loaded = load_jax(threads)
        if loaded is not None:
            serve(jax(loaded), f"JAX {loaded.__version__}", clock)
    elif name in ("torch", "torch.compile"):
        loaded = load_torch(threads)
        if loaded is not None:
            make = torch(loaded, name == "torch.compile")
            serve(make, f"PyTorch {loaded.__version__}", clock)
    else:
        loaded = session_competitor.load("TensorFlow" if name == INLINE else name)
        if loaded is not None:
            make = framework(loaded, threads, -1 if name == INLINE else threads)
            serve(make, f"{name.partition(',')[0]} {loaded.__version__}", clock)


def main() -> None:
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    serve_as(sys.argv[1], int(sys.argv[2]), jax_case, torch_case, framework_case)


if __name__ == "__main__":
    main()
