import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import rnn

X = np.random.RandomState(0).randn(3, 5, 4).astype(np.float32)
LENGTHS = [2, 5, 3]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        yield graph


def run(*fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


def network(cell, **kwargs):
    return tf.nn.dynamic_rnn(cell, X, dtype=tf.float32, **kwargs)


def seeded(scope):
    return tf.variable_scope(scope, initializer=tf.random_uniform_initializer(-1, 1, seed=3))


CELLS = {
    "ugrnn": (lambda: rnn.UGRNNCell(4), 4, ["kernel", "bias"]),
    "intersection": (lambda: rnn.IntersectionRNNCell(4), 4, ["kernel", "bias"]),
    "nas": (lambda: rnn.NASCell(6, 5), 5, ["recurrent_kernel", "kernel", "projection_weights"]),
    "sru": (lambda: rnn.SRUCell(4), 4, ["kernel", "bias"]),
    "ind": (lambda: rnn.IndRNNCell(4), 4, ["input_kernel", "recurrent_kernel", "bias"]),
    "coupled": (
        lambda: rnn.CoupledInputForgetGateLSTMCell(6, use_peepholes=True, num_proj=3),
        3,
        ["W_0", "B", "W_F_diag", "W_O_diag", "W_P_0"],
    ),
    "gru": (lambda: rnn.GRUBlockCell(4), 4, ["w_ru", "b_ru", "w_c", "b_c"]),
    "highway": (lambda: rnn.HighwayWrapper(rnn.BasicRNNCell(4)), 4, None),
    "attention": (lambda: rnn.AttentionCellWrapper(rnn.BasicLSTMCell(4), 3), 4, None),
    "flat": (
        lambda: rnn.AttentionCellWrapper(rnn.GRUCell(4), 3, state_is_tuple=False),
        4,
        None,
    ),
    "normalised": (lambda: rnn.LayerNormBasicLSTMCell(4), 4, None),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_loop_and_its_unrolled_form_agree_and_every_variable_has_a_gradient(name):
    make, size, variables = CELLS[name]
    with seeded("a"):
        looped, _ = network(make(), sequence_length=LENGTHS)
    with seeded("b"):
        steps, _ = rnn.static_rnn(
            make(), tf.unstack(X, axis=1), dtype=tf.float32, sequence_length=LENGTHS
        )
    of_a = tf.trainable_variables("a")
    if variables is not None:
        assert [each.op.name.split("/")[-1] for each in of_a] == variables
    copies = [tf.assign(b, a) for a, b in zip(of_a, tf.trainable_variables("b"), strict=True)]
    assert None not in tf.gradients(looped, of_a)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(copies)
        one, other = session.run([looped, tf.stack(steps, 1)])
    assert one.shape == (3, 5, size)
    assert (one[0, 2:] == 0).all()
    assert np.abs(one[1]).max() > 0
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_block_cells_are_the_plain_ones():
    plain = [rnn.BasicLSTMCell(4), rnn.GRUCell(4), rnn.GRUCell(4)]
    blocks = [rnn.LSTMBlockCell(4), rnn.GRUBlockCell(4), rnn.GRUBlockCellV2(4)]
    for index, (one, other) in enumerate(zip(plain, blocks, strict=True)):
        with tf.variable_scope(f"plain{index}", initializer=tf.random_uniform_initializer(-1, 1)):
            a, _ = network(one)
        with tf.variable_scope(f"block{index}"):
            b, _ = network(other)
        pairs = zip(
            tf.trainable_variables(f"block{index}"),
            tf.trainable_variables(f"plain{index}"),
            strict=True,
        )
        copies = [tf.assign(to, source) for to, source in pairs]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(copies)
            first, second = session.run([a, b])
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


def test_a_fused_network_is_its_cell_over_time_and_can_run_backwards():
    steps = tf.constant(X.transpose(1, 0, 2))
    fused = rnn.LSTMBlockFusedCell(4, use_peephole=True)
    outputs, state = fused(steps, dtype=tf.float32, sequence_length=LENGTHS)
    fused_names = [each.op.name for each in tf.trainable_variables()]
    assert fused_names == [
        f"lstm_fused_cell/{name}" for name in ("kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag")
    ]
    back, _ = rnn.TimeReversedFusedRNN(fused)(tf.reverse(steps, [0]), dtype=tf.float32)
    forth, last = fused(steps, dtype=tf.float32)
    cell = rnn.LSTMBlockCell(4, use_peephole=True, name="lstm_fused_cell", reuse=True)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        by_cell, cell_state = rnn.static_rnn(
            _renamed(cell), tf.unstack(steps), dtype=tf.float32, sequence_length=LENGTHS
        )
    a, b, h, cell_h, backwards, forwards, end = run(
        outputs, tf.stack(by_cell), state.h, cell_state.h, back, forth, last.h
    )
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(h, cell_h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(backwards[::-1], forwards, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(end, forwards[-1], rtol=1e-5, atol=1e-6)


def _renamed(cell):
    """Returns the cell with the variables of the top scope instead of those below `rnn`."""

    class Renamed(rnn.RNNCell):
        state_size = cell.state_size
        output_size = cell.output_size

        def __call__(self, inputs, state, scope=None):
            with tf.variable_scope(top, auxiliary_name_scope=False):
                return cell(inputs, state)

    top = tf.get_variable_scope()
    return Renamed()


def test_layer_norm_lstm_by_hand():
    cell = rnn.LayerNormBasicLSTMCell(2)
    state = rnn.LSTMStateTuple(tf.constant([[0.1, 0.2]]), tf.constant([[0.3, -0.4]]))
    output, new = cell(tf.constant([[1.0, 2.0]]), state)
    kernel = tf.trainable_variables()[0]
    value, c, w = run(output, new.c, kernel)

    def norm(v):
        return (v - v.mean()) / np.sqrt(v.var() + 1e-12)

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    i, j, f, o = (norm(part) for part in np.split(np.array([1.0, 2.0, 0.3, -0.4]) @ w, 4))
    wanted = norm(np.array([0.1, 0.2]) * sigmoid(f + 1) + sigmoid(i) * np.tanh(j))
    np.testing.assert_allclose(c[0], wanted, rtol=1e-4)
    np.testing.assert_allclose(value[0], np.tanh(wanted) * sigmoid(o), rtol=1e-4)


def test_stacks_in_both_directions():
    def cells():
        return [rnn.GRUCell(3), rnn.GRUCell(2)]

    outputs, fw, bw = rnn.stack_bidirectional_dynamic_rnn(cells(), cells(), X, dtype=tf.float32)
    assert outputs.shape.as_list() == [3, 5, 4]
    assert [each.shape.as_list() for each in fw] == [[3, 3], [3, 2]]
    assert tf.trainable_variables()[0].op.name.startswith(
        "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/gru_cell"
    )
    assert len(bw) == 2
    with pytest.raises(ValueError, match="same depth"):
        rnn.stack_bidirectional_rnn(cells(), cells()[:1], [X[:, 0]], dtype=tf.float32)


def test_convolutional_cells_keep_the_space():
    cell = rnn.Conv2DLSTMCell(input_shape=[6, 6, 2], output_channels=3, kernel_shape=[3, 3])
    outputs, state = tf.nn.dynamic_rnn(cell, np.ones((2, 4, 6, 6, 2), "f"), dtype=tf.float32)
    assert run(outputs)[0].shape == (2, 4, 6, 6, 3)
    assert state.c.shape.as_list() == [2, 6, 6, 3]
    with pytest.raises(ValueError, match="Invalid input_shape"):
        rnn.Conv1DLSTMCell(input_shape=[6, 6, 2], output_channels=3, kernel_shape=[3])
