"""Threads that use kernels of every kind for the first time, concurrently; compared with numpy.

    python first_use.py SEED THREADS [own|shared|servers]

Each thread goes through all kinds in its own order: with its own graph and session (`own`), with
one session for all (`shared`), or with a session on one of two servers of this process (`servers`).
Prints "right" at the end.
"""

import faulthandler
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import sparkflow as tf

faulthandler.enable()
rng = np.random.RandomState(0)
A = rng.randn(48, 80).astype(np.float32)
B = rng.randn(80, 36).astype(np.float32)
IMAGES = rng.rand(2, 9, 9, 3).astype(np.float32)
FILTERS = rng.randn(3, 3, 3, 4).astype(np.float32)
IDS = np.array([3, 1, 3, 0, 2, 1], np.int64)


def products(dtype):
    """Products of every form, and their gradients."""

    def build():
        a, b = tf.constant(A.astype(dtype)) * 1, tf.constant(B.astype(dtype)) * 1
        fed = tf.placeholder_with_default(np.ones((), dtype), [])  # prevents constant folding
        a, b = a * fed, b * fed
        forms = [
            tf.matmul(a, b),
            tf.matmul(a, tf.transpose(b), transpose_b=True),
            tf.matmul(tf.transpose(a), b, transpose_a=True),
            tf.matmul(a[None] + tf.zeros([2, 1, 1], dtype), b[None] + tf.zeros([2, 1, 1], dtype)),
            tf.gradients(tf.matmul(a, b), a)[0],
        ]
        right = A.astype(dtype) @ B.astype(dtype)
        slope = np.ones_like(right) @ B.astype(dtype).T
        return forms, [right, right, right, np.stack([right, right]), slope]

    return build


def windows():
    """A convolution, a depthwise one, poolings, and a gradient through them."""
    x = tf.placeholder_with_default(IMAGES, IMAGES.shape)
    filtered = tf.nn.conv2d(x, FILTERS, [1, 1, 1, 1], "VALID")
    pooled = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    mean = tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 3, 3, 1], "VALID")
    patches = np.lib.stride_tricks.sliding_window_view(IMAGES, (3, 3), (1, 2))
    right = np.einsum("nijcab,abco->nijo", patches, FILTERS)
    deep = tf.nn.depthwise_conv2d(x, FILTERS[..., :1], [1, 1, 1, 1], "VALID")
    deep_right = np.einsum("nijcab,abc->nijc", patches, FILTERS[..., 0])
    maximum = IMAGES[:, :8, :8].reshape(2, 4, 2, 4, 2, 3).max((2, 4))
    average = IMAGES.reshape(2, 3, 3, 3, 3, 3).mean((2, 4))
    slope = tf.gradients(tf.reduce_sum(mean), x)[0]
    slope_right = np.full_like(IMAGES, 1 / 9)
    fetches = [filtered, deep, pooled, mean, slope]
    return fetches, [right, deep_right, maximum, average, slope_right]


def turned():
    """Transpositions by machine code."""
    made, right = [], []
    for dtype in (np.float32, np.float64, np.int16, np.uint8):
        values = np.arange(64 * 96).reshape(64, 96).astype(dtype)
        made.append(tf.transpose(tf.placeholder_with_default(values, [64, 96])))
        right.append(values.T)
    return made, right


def fused():
    """Chains of functions, reductions over both dimensions, softmax, casts to half and back."""
    x = tf.placeholder_with_default(A, A.shape)
    chain = tf.tanh(x * 2 + 1) * tf.sigmoid(x) - tf.exp(-tf.square(x))
    right = np.tanh(A * 2 + 1) / (1 + np.exp(-A)) - np.exp(-np.square(A))
    shifted = np.exp(A - A.max(1, keepdims=True))
    made = [
        chain,
        tf.reduce_sum(chain, 0),
        tf.reduce_mean(chain, 1),
        tf.reduce_max(x, 1),
        tf.nn.softmax(x),
        tf.cast(tf.cast(x, tf.float16), tf.float32),
    ]
    soft = shifted / shifted.sum(1, keepdims=True)
    half = A.astype(np.float16).astype(np.float32)
    return made, [right, right.sum(0), right.mean(1), A.max(1), soft, half]


def loops():
    """A loop of fused kernels, and its gradient."""
    x = tf.placeholder_with_default(np.float32(0.5), [])
    _, grown = tf.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * 1.5 + x), [0, x])
    right = 0.5
    for _ in range(5):
        right = right * 1.5 + 0.5
    slope = 1.5**5 + sum(1.5**i for i in range(5))
    return [grown, tf.gradients(grown, x)[0]], [right, slope]


def rows():
    """Rows gathered, summed, and made distinct."""
    table = tf.placeholder_with_default(A, A.shape)
    ids = tf.placeholder_with_default(IDS, IDS.shape)
    looked_up = tf.nn.embedding_lookup(table, ids)
    summed = tf.unsorted_segment_sum(looked_up, ids, 4)
    different, places = tf.unique(ids)
    sums = np.zeros((4, 80), np.float32)
    np.add.at(sums, IDS, A[IDS])
    return [looked_up, summed, different, places], [A[IDS], sums, [3, 1, 0, 2], [0, 1, 0, 2, 3, 1]]


def drawn():
    """Random numbers with their own seed."""
    drawn = tf.random.stateless_uniform([1000], [1, 2]), tf.random.stateless_normal([1000], [1, 2])
    return [tf.reduce_all((drawn[0] >= 0) & (drawn[0] < 1)), tf.size(drawn[1])], [True, 1000]


KINDS = [products("float32"), products("float64"), windows, turned, fused, loops, rows, drawn]
OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


def train(name, target, number):
    """Runs some steps of a small model; the loss must decrease as in any other thread.

    Sessions on one server share variables with the same name, so each thread uses its own names.
    """
    with tf.Graph().as_default(), tf.name_scope(f"thread{number}"):
        weights = tf.Variable(np.zeros((2, 1), np.float32))
        table = tf.Variable(np.ones((300, 8), np.float32))
        x = tf.placeholder(tf.float32, [None, 2])
        taken = tf.nn.embedding_lookup(table, IDS)
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 1)) + tf.reduce_mean(taken**2)
        step = OPTIMIZERS[name]().minimize(loss)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            feed = {x: np.ones((4, 2), np.float32)}
            return [session.run([loss, step], feed)[0] for _ in range(20)][-1]


def check(session, fetches, right):
    """Runs twice: first use, then the plan."""
    for _ in range(2):
        for found, wanted in zip(session.run(fetches), right, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4)


def main():
    seed, count, how = int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or ["own"])[0]
    if seed % 2:
        sys.setswitchinterval(1e-6)
    targets = [""]
    servers = []
    if how == "servers":
        servers = [tf.train.Server.create_local_server() for _ in range(2)]
        targets = [server.target for server in servers]
    shared = tf.Graph()
    built = []
    if how == "shared":
        with shared.as_default():
            built = [kind() for kind in KINDS]
    together = tf.Session(graph=shared)
    ready = threading.Barrier(count)

    def work(number):
        tasks = [*range(len(KINDS)), *OPTIMIZERS]
        random.Random(seed * 100 + number // 2).shuffle(tasks)  # shared by two threads
        target = targets[number % len(targets)]
        losses = {}
        ready.wait()
        for task in tasks:
            if task in OPTIMIZERS:
                losses[task] = train(task, target, number)
            elif built:
                check(together, *built[task])
            else:
                with tf.Graph().as_default() as graph:
                    fetches, right = KINDS[task]()
                    with tf.Session(target, graph=graph) as session:
                        check(session, fetches, right)
        return losses

    with ThreadPoolExecutor(count) as pool:
        losses = [each.result() for each in [pool.submit(work, i) for i in range(count)]]
    for name in OPTIMIZERS:
        found = [each[name] for each in losses]
        assert found == found[:1] * count, (name, found)
    together.close()
    print("right")


if __name__ == "__main__":
    main()
