"""One competitor of `peers.py`, as a process: `peers_competitor.py NAME THREADS`.

NAME is sparkflow, TensorFlow, "TensorFlow, inter -1", JAX, torch or torch.compile. The cases are
those of `executor.py`, `loops.py` and `networks.py`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import executor_competitor
import loops_competitor
import networks
import session_competitor
from competitor import Case, serve, skip

LOOPS = ("cell", "cell_gradient", "lstm", "dynamic_rnn")
INLINE = "TensorFlow, inter -1"
"""With a thread of the caller's for everything that is small."""


def framework_case(tf: Any, threads: int, inter: int) -> Callable[[str], Case | None]:
    """The cases as TensorFlow 1 programs."""
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
            return None  # its kernels for processors have one order of dimensions
        values, data = networks.NETWORKS[name]()
        data = networks.channels_first(name, data)
        with tf.Graph().as_default():
            held = {key: tf.Variable(each, name=key) for key, each in values.items()}
            given = {key: tf.constant(each) for key, each in data.items()}
            loss = networks.tf_loss(tf, name, held, given)
            optimizer = tf.train.GradientDescentOptimizer(networks.RATE)
            return session_competitor.training_case(tf, session, loss, optimizer, dict)

    return make


def _torch(threads: int, compiled: bool) -> None:
    if importlib.util.find_spec("torch") is None:
        skip("PyTorch is not installed")
        return
    import loops_torch
    import networks_torch
    import torch  # type: ignore[import-not-found]  # optional, often for another Python
    import torch_competitor

    torch.set_num_threads(threads)
    # What torch.compile makes of 50 unrolled steps takes minutes to compile.
    loops = loops_torch.Cases(torch, compiled=False)
    others = torch_competitor.Cases(torch, compiled)

    def make(name: str) -> Case | None:
        if name in LOOPS:
            return None if compiled else loops.make(name)
        return networks_torch.make(torch, name, compiled) or others.make(name)

    serve(make, f"PyTorch {torch.__version__}")


def _jax(threads: int) -> None:
    if importlib.util.find_spec("jax") is None:
        skip("JAX is not installed")
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    import loops_jax
    import networks_jax

    loops = loops_jax.cases(jax)

    def make(name: str) -> Case | None:
        return loops(name) if name in LOOPS else networks_jax.make(jax, name)

    serve(make, f"JAX {jax.__version__}")


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    if name == "JAX":
        _jax(threads)
    elif name in ("torch", "torch.compile"):
        _torch(threads, name == "torch.compile")
    else:
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
        framework = session_competitor.load("TensorFlow" if name == INLINE else name)
        if framework is not None:
            inter = -1 if name == INLINE else threads
            make = framework_case(framework, threads, inter)
            serve(make, f"{name.partition(',')[0]} {framework.__version__}")


if __name__ == "__main__":
    main()
