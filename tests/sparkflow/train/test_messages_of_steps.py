"""The number of messages in steps of programs with parameter servers, as written in guides."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport.channel.asking import Asker
from sparkflow_runtime.transport.channel.reactor import available
from sparkflow_runtime.transport.channel.serving import Serving

pytestmark = pytest.mark.skipif(not (available() and SharedArena.available()), reason="needs Linux")

STEPS = 12
LEARNING = 4
"""The number of steps in a new session that ask where variables are."""
Optimizer = Callable[[Any], Any]


def descent(step: Any) -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


def decayed(step: Any) -> Any:
    return tf.train.MomentumOptimizer(tf.train.exponential_decay(0.1, step, 10, 0.9), 0.9)


def adam(step: Any) -> Any:
    return tf.train.AdamOptimizer(0.01)


def synchronous(step: Any) -> Any:
    return tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1, 1)


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the messages between tasks by kind."""
    seen: Counter[str] = Counter()

    def noting(kind: type) -> None:
        handle = kind.handle  # type: ignore[attr-defined]

        def handle_noted(end: Any, header: Any, *rest: Any) -> None:
            seen[header.kind.name] += 1
            handle(end, header, *rest)

        monkeypatch.setattr(kind, "handle", handle_noted)

    noting(Serving)
    noting(Asker)
    return seen


@pytest.mark.parametrize("make", [descent, decayed, adam, synchronous])
def test_a_monitored_step_asks_for_nothing(
    make: Optimizer, frames: Counter[str], tmp_path: Path
) -> None:
    given = np.random.default_rng(0).normal(size=(8, 3))
    with LocalCluster(1, 1) as cluster, tf.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")):
            x = tf.placeholder(tf.float32, [None, 3])
            y = tf.placeholder(tf.float32, [None])
            step = tf.train.get_or_create_global_step()
            w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, w), [1]) - y))
            optimizer = make(step)
            train = optimizer.minimize(loss, global_step=step)
        hooks = [tf.train.StopAtStepHook(last_step=STEPS)]
        if make is synchronous:
            hooks.append(optimizer.make_session_run_hook(is_chief=True))
        losses: list[float] = []
        told: dict[str, int] = {}
        session = tf.train.MonitoredTrainingSession(
            cluster.target("worker", 0),
            hooks=hooks,
            checkpoint_dir=str(tmp_path),
            save_summaries_steps=None,
            save_summaries_secs=None,
        )
        with session:
            while not session.should_stop():
                feeds = {x: given, y: given @ [1, 2, 3]}
                if len(losses) == LEARNING:
                    frames.clear()
                _, now, at = session.run([train, loss, step], feeds)
                losses.append(now)
                if at == STEPS - 1:
                    told = dict(frames)
    assert losses[-1] < losses[0]
    assert told["CALL"] >= STEPS - LEARNING - 2
    assert "REQUEST" not in told
    assert "BUNDLE" not in told
