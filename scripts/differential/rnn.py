"""Recurrent networks with fixed weights."""

PREAMBLE = """
rng = np.random.RandomState(0)
x = tf.constant(rng.randn(3, 4, 2), tf.float32)
steps = tf.unstack(x, axis=1)
lengths = tf.constant([2, 4, 3])
tf.get_variable_scope().set_initializer(tf.constant_initializer(0.1))
cells = tf.nn.rnn_cell
def weights(value):
    return [value, [(v.name, v.shape.as_list()) for v in tf.trainable_variables()]]
"""
WITH_RESPECT_TO = ("x",)
EXPRESSIONS = """
weights(tf.nn.dynamic_rnn(cells.BasicRNNCell(3), x, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.BasicLSTMCell(3), x, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.LSTMCell(3), x, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.LSTMCell(3, use_peepholes=True, num_proj=2, cell_clip=0.2, proj_clip=0.1), x, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.GRUCell(3), x, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.GRUCell(3), x, sequence_length=lengths, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.BasicLSTMCell(3), x, sequence_length=lengths, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.BasicLSTMCell(3, forget_bias=0.0, activation=tf.nn.relu), tf.transpose(x, [1, 0, 2]), dtype=tf.float32, time_major=True))
weights(tf.nn.dynamic_rnn(cells.MultiRNNCell([cells.BasicLSTMCell(3), cells.GRUCell(2)]), x, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.ResidualWrapper(cells.GRUCell(2)), x, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.DropoutWrapper(cells.GRUCell(2), 1.0, 1.0), x, dtype=tf.float32))
weights(tf.nn.dynamic_rnn(cells.BasicRNNCell(3), x, initial_state=tf.ones([3, 3])))
weights(tf.nn.dynamic_rnn(cells.BasicRNNCell(3, name="mine"), x, dtype=tf.float32, scope="outer"))
tf.nn.dynamic_rnn(cells.BasicRNNCell(3), x)
tf.nn.dynamic_rnn(cells.BasicRNNCell(3), x, dtype=tf.float32, sequence_length=[[1]])
tf.nn.dynamic_rnn(3, x, dtype=tf.float32)
weights(tf.nn.static_rnn(cells.BasicRNNCell(3), steps, dtype=tf.float32))
weights(tf.nn.static_rnn(cells.BasicLSTMCell(3), steps, dtype=tf.float32, sequence_length=lengths))
weights(tf.nn.static_rnn(cells.BasicLSTMCell(3, state_is_tuple=False), steps, dtype=tf.float32))
tf.nn.static_rnn(cells.BasicRNNCell(3), [], dtype=tf.float32)
tf.nn.static_rnn(cells.BasicRNNCell(3), x, dtype=tf.float32)
weights(tf.nn.bidirectional_dynamic_rnn(cells.GRUCell(2), cells.GRUCell(3), x, dtype=tf.float32))
weights(tf.nn.bidirectional_dynamic_rnn(cells.BasicLSTMCell(2), cells.GRUCell(3), x, sequence_length=lengths, dtype=tf.float32))
weights(tf.nn.static_bidirectional_rnn(cells.BasicLSTMCell(2), cells.BasicLSTMCell(2), steps, dtype=tf.float32))
weights(tf.nn.static_bidirectional_rnn(cells.GRUCell(2), cells.GRUCell(2), steps, sequence_length=lengths, dtype=tf.float32))
cells.BasicLSTMCell(3).zero_state(2, tf.float32)
cells.MultiRNNCell([cells.GRUCell(2), cells.BasicLSTMCell(3)]).zero_state(2, tf.float32)
cells.MultiRNNCell([])
cells.MultiRNNCell(cells.GRUCell(2))
cells.DropoutWrapper(cells.GRUCell(2), 1.5)
---
cell = cells.GRUCell(3)
h = tf.zeros([3, 3])
h, _ = cell(steps[0], h)
h, _ = cell(steps[1], h)
weights(h)
---
cell = cells.BasicLSTMCell(3)
state = cell.zero_state(3, tf.float32)
with tf.variable_scope("net"):
    for i, step in enumerate(steps):
        if i > 0:
            tf.get_variable_scope().reuse_variables()
        out, state = cell(step, state)
weights([out, state])
---
cell = cells.GRUCell(3)
ta = tf.TensorArray(tf.float32, 4).unstack(tf.transpose(x, [1, 0, 2]))
def loop_fn(time, cell_output, cell_state, loop_state):
    emit = cell_output
    state = cell.zero_state(3, tf.float32) if cell_output is None else cell_state
    done = time >= lengths
    following = tf.cond(tf.reduce_all(done), lambda: tf.zeros([3, 2]), lambda: ta.read(time))
    return done, following, state, emit, None
outputs, final, _ = tf.nn.raw_rnn(cell, loop_fn)
weights([outputs.stack(), final])
"""
