"""The cost of the first runs of a training graph of some 2,000 nodes: `first_run.py NAME THREADS`.

`executor.py` starts a separate process for each measurement, because frameworks do not compile the
same thing twice. The framework is imported and runs a small graph before the clock starts. Prints a
line of JSON:

    {"nodes": count, "built": s, "first": s, "third": s, "check": [losses]}

where the seconds are those since the start, when the graph was built and when the first and the
third step were done; or {"skip": reason}.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import mlp
import numpy as np
from session_competitor import load, session_maker

LAYERS = 46
ROWS = 32


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    framework = load(name)
    if framework is not None:
        print(json.dumps(seconds(framework, threads)))


def seconds(tf: Any, threads: int) -> dict[str, Any]:
    """Returns what the process prints."""
    features, labels = mlp.batch(rows=ROWS)
    import_all(tf, threads)
    start = time.perf_counter()
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, features.shape[1]])
        y = tf.placeholder(tf.int64, [None])
        loss = network(tf, x, y)
        train_op = tf.train.AdamOptimizer(mlp.ADAM_LEARNING_RATE).minimize(loss)
        initializer = tf.global_variables_initializer()
        running = session_maker(tf, threads)()
    moments = [time.perf_counter()]
    running.run(initializer)
    check = []
    for _ in range(3):
        check.append(float(running.run([loss, train_op], {x: features, y: labels})[0]))
        moments.append(time.perf_counter())
    built, first, _, third = (moment - start for moment in moments)
    nodes = len(graph.get_operations())
    return {"nodes": nodes, "built": built, "first": first, "third": third, "check": check}


def import_all(tf: Any, threads: int) -> None:
    """Trains a number, so that modules imported on first use are loaded."""
    with tf.Graph().as_default():
        number = tf.Variable(1.0)
        train_op = tf.train.AdamOptimizer().minimize(tf.nn.relu(number))
        initializer = tf.global_variables_initializer()
        running = session_maker(tf, threads)()
    running.run(initializer)
    running.run(train_op)


def network(tf: Any, x: Any, labels: Any) -> Any:
    """Returns the loss of a deep network whose layers differ in width and activation."""
    generator = np.random.default_rng(0)
    activations = (tf.nn.relu, tf.tanh, tf.sigmoid, tf.nn.elu)
    width = int(x.shape[1])
    for layer in range(LAYERS):
        outputs = 10 if layer == LAYERS - 1 else 24 + 8 * (layer % 5)
        weight = generator.standard_normal((width, outputs), np.float32) / np.sqrt(width)
        x = tf.matmul(x, tf.Variable(weight.astype(np.float32)))
        x = x + tf.Variable(np.zeros(outputs, np.float32))
        if layer < LAYERS - 1:
            x = activations[layer % len(activations)](x)
        width = outputs
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
    return tf.reduce_mean(each)


if __name__ == "__main__":
    main()
