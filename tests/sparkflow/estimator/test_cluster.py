"""`train_and_evaluate` in processes with tasks assigned by TF_CONFIG."""

import json
import os
import re
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import sparkflow as tf

PROGRAM = Path(__file__).parent / "train_and_evaluate_task.py"
DEADLINE_S = 120


def free_addresses(count):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def started(stack, cluster, task_type, directory):
    """Starts a task that is ended with the stack at the latest."""
    config = {"cluster": cluster, "task": {"type": task_type, "index": 0}}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(directory)],
        env={**os.environ, "TF_CONFIG": json.dumps(config)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def end():
        if process.poll() is None:
            process.kill()
            process.communicate()

    stack.callback(end)
    return process


def test_chief_worker_ps_and_evaluator_train_one_model(tmp_path):
    chief, worker, ps = free_addresses(3)
    cluster = {"chief": [chief], "worker": [worker], "ps": [ps]}
    with ExitStack() as stack:
        server, *others = (
            started(stack, cluster, task_type, tmp_path)
            for task_type in ("ps", "chief", "worker", "evaluator")
        )
        outputs = [process.communicate(timeout=DEADLINE_S) for process in others]
        assert [process.returncode for process in others] == [0, 0, 0], outputs
        assert server.poll() is None, "a ps serves until it is ended"
    said = [output for output, _ in outputs]
    assert said[0] == "chief is done\n"
    assert said[1] == "worker is done\n"
    loss, step = re.fullmatch(r"loss=(\S+) step=(\d+)\nevaluator is done\n", said[2]).groups()
    assert float(loss) < 1e-3
    assert int(step) >= 200
    # The worker may have begun one more step after the chief had saved its last one.
    last = tf.train.load_variable(str(tmp_path), "global_step")
    assert int(step) <= last <= int(step) + 1
