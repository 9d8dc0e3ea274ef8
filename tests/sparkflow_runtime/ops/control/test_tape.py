"""Tapes: the results of _TapeRead, _TapeLength, _TapeGradient and _TapeGradientRead."""

import numpy as np

import sparkflow as tf
from sparkflow_runtime.ops import registry


def compute(op, *inputs, **attrs):
    return registry.lookup(op).compute(np, *inputs, **attrs)


def test_gradients_are_found_by_iteration_and_name():
    kept = compute("_TapeGradient", np.int32(2), np.float32(5), names=["a:0"])
    like = np.float32(0)
    assert compute("_TapeGradientRead", kept, np.int32(2), like, name="a:0") == 5
    assert compute("_TapeGradientRead", kept, np.int32(1), like, name="a:0") == 0
    assert compute("_TapeGradientRead", kept, np.int32(2), like, name="b:0") == 0


def test_a_tape_is_as_long_as_there_were_calls():
    assert compute("_TapeLength", [(), (), ()]) == 3


def recorded(session, fetches):
    """Returns the tensors that the functions of a step record."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    session.run(fetches, options=options, run_metadata=metadata)
    return [
        text
        for graph in metadata.partition_graphs
        for function in graph.library.function
        for text in function.attr["_taped"].list.s
    ]


def test_only_a_step_that_takes_gradients_records_and_only_what_it_reads():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.0, 2.0])
        _, y = tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, tf.sin(a) * 2.0 + tf.exp(x)), [0, x]
        )
        (gradient,) = tf.gradients(y, x)
        assert recorded(session, y) == []
        # The cosine needs the loop variable, the exponential its own result; nothing else.
        assert len(recorded(session, [y, gradient])) == 2
