"""Steps of several threads, as of workers that train asynchronously, on the same variables."""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import opt

RATE = 0.001
OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(RATE),
    "momentum": lambda: tf.train.MomentumOptimizer(RATE, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(RATE, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(RATE),
    "adagrad_da": lambda: tf.train.AdagradDAOptimizer(
        RATE, tf.train.get_or_create_global_step(), l1_regularization_strength=0.1
    ),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(RATE),
    "adam": lambda: tf.train.AdamOptimizer(RATE),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(RATE),
    "centered_rmsprop": lambda: tf.train.RMSPropOptimizer(RATE, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(RATE),
    "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(RATE),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(RATE),
    "lazy_adam": lambda: opt.LazyAdamOptimizer(RATE),
    "nadam": lambda: opt.NadamOptimizer(RATE),
    "ada_max": lambda: opt.AdaMaxOptimizer(RATE),
    "add_sign": lambda: opt.AddSignOptimizer(RATE),
    "power_sign": lambda: opt.PowerSignOptimizer(RATE),
    "adam_w": lambda: opt.AdamWOptimizer(0.01, RATE),
    "momentum_w": lambda: opt.MomentumWOptimizer(0.01, RATE, 0.9),
}
ROWS, THREADS, STEPS, DEADLINE_S = 2000, 4, 100, 60


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def looked_up():
    table = tf.get_embedding_variable("w", 4)
    return table.values[0], table.lookup(tf.constant([1, 3], tf.int64))


def gathered(**kind):
    w = tf.get_variable("w", [6, 4], **kind)
    return w, tf.gather(w, [1, 3])


def whole(**kind):
    w = tf.get_variable("w", [6, 4], **kind)
    return w, w.read_value()


VARIABLES = {
    "reference": lambda: whole(use_resource=False),
    "resource": lambda: whole(use_resource=True),
    "bfloat16": lambda: whole(dtype=tf.bfloat16),
    "rows": lambda: gathered(use_resource=False),
    "rows of a resource": lambda: gathered(use_resource=True),
    "rows of bfloat16": lambda: gathered(dtype=tf.bfloat16),
    "rows that come and go": looked_up,
}
"""A variable, and what a loss reads of it."""
CHANGES = ("Apply", "Assign", "Scatter")


def test_all_optimizers_are_here():
    def below(cls):
        return {cls} | {each for sub in cls.__subclasses__() for each in below(sub)}

    known = {type(make()) for make in OPTIMIZERS.values()}
    public = {
        getattr(module, name)
        for module in (tf.train, opt)
        for name in dir(module)
        if name.endswith("Optimizer")
    }
    wrappers = {tf.train.SyncReplicasOptimizer, tf.train.GradientAccumulationOptimizer}
    assert public - wrappers - {tf.train.Optimizer} == known
    assert known <= below(tf.train.Optimizer)


@pytest.mark.parametrize("variable_and_read", VARIABLES.values(), ids=VARIABLES)
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_one_op_changes_a_variable_and_its_slots(make, variable_and_read):
    variable, read = variable_and_read()
    optimizer = make()
    optimizer.minimize(tf.reduce_sum(tf.cast(read, tf.float32)))
    ops = tf.get_default_graph().get_operations()
    for name in optimizer.get_slot_names():
        slot = optimizer.get_slot(variable, name)
        users = [op for op in ops if slot.op.outputs[0] in list(op.inputs)]
        changing = [
            op
            for op in users
            if any(kind in op.type for kind in CHANGES) and op is not slot.initializer
        ]
        assert len(changing) == 1, f"{name} is changed by {[op.type for op in changing]}"
        assert variable.op.outputs[0] in list(changing[0].inputs)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_variables_stay_as_small_as_the_steps_allow(make):
    """Of updates that run into each other, one leaves a momentum without a variance."""
    w = tf.get_variable("w", [ROWS, 4], initializer=tf.zeros_initializer())
    rows = tf.placeholder(tf.int64, [None])
    gradient = tf.placeholder(tf.float32, [None, 4])
    slices = tf.IndexedSlices(gradient, rows, tf.constant([ROWS, 4]))
    train = make().apply_gradients([(slices, w)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def work(number):
            random = np.random.default_rng(number)
            for _ in range(STEPS):
                values = random.normal(size=(300, 4))
                session.run(train, {rows: random.integers(0, ROWS, 300), gradient: values})

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        assert np.abs(session.run(w)).max() < 10 * RATE * STEPS
