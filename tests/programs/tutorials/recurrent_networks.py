"""static_rnn, dynamic_rnn of sequences with lengths, and a bidirectional classifier."""

import numpy as np

import sparkflow as tf

rnn = tf.contrib.rnn
rng = np.random.RandomState(4)
timesteps, num_input, num_hidden, num_classes = 6, 3, 12, 2
lengths = rng.randint(2, 7, 200)
data = rng.randn(200, timesteps, num_input).astype(np.float32)
for row, length in zip(data, lengths):
    row[length:] = 0
labels = (data[:, :, 0].sum(1) > 0).astype(int)
targets = np.eye(2, dtype=np.float32)[labels]


def static_net(x, weights, biases):
    x = tf.unstack(x, timesteps, 1)
    cell = rnn.BasicLSTMCell(num_hidden, forget_bias=1.0)
    outputs, _ = rnn.static_rnn(cell, x, dtype=tf.float32)
    return tf.matmul(outputs[-1], weights) + biases


def dynamic_net(x, seqlen, weights, biases):
    cell = tf.nn.rnn_cell.LSTMCell(num_hidden)
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, sequence_length=seqlen)
    batch_size = tf.shape(outputs)[0]
    index = tf.range(0, batch_size) * timesteps + (seqlen - 1)
    outputs = tf.gather(tf.reshape(outputs, [-1, num_hidden]), index)
    return tf.matmul(outputs, weights) + biases


def bidirectional_net(x, weights, biases):
    x = tf.unstack(x, timesteps, 1)
    fw = rnn.GRUCell(num_hidden // 2)
    bw = rnn.GRUCell(num_hidden // 2)
    outputs, _, _ = rnn.static_bidirectional_rnn(fw, bw, x, dtype=tf.float32)
    return tf.matmul(outputs[-1], weights) + biases


def dynamic_bidirectional_net(x, seqlen, weights, biases):
    fw = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.LSTMCell(num_hidden // 2), 1.0)
    bw = tf.nn.rnn_cell.LSTMCell(num_hidden // 2)
    outputs, states = tf.nn.bidirectional_dynamic_rnn(
        fw, bw, x, sequence_length=seqlen, dtype=tf.float32
    )
    last = tf.concat([states[0].h, states[1].h], 1)
    assert tf.concat(outputs, 2).get_shape().as_list()[2] == num_hidden
    return tf.matmul(last, weights) + biases


for kind in ("static", "dynamic", "bidirectional", "dynamic bidirectional"):
    tf.reset_default_graph()
    tf.set_random_seed(1)
    X = tf.placeholder("float", [None, timesteps, num_input])
    Y = tf.placeholder("float", [None, num_classes])
    seqlen = tf.placeholder(tf.int32, [None])
    W = tf.Variable(tf.random_normal([num_hidden, num_classes]))
    b = tf.Variable(tf.random_normal([num_classes]))
    if kind == "static":
        logits = static_net(X, W, b)
    elif kind == "dynamic":
        logits = dynamic_net(X, seqlen, W, b)
    elif kind == "bidirectional":
        logits = bidirectional_net(X, W, b)
    else:
        logits = dynamic_bidirectional_net(X, seqlen, W, b)
    loss_op = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=Y))
    train_op = tf.train.AdamOptimizer(0.02).minimize(loss_op)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(Y, 1)), tf.float32))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feed = {X: data, Y: targets, seqlen: lengths}
        for _ in range(40):
            sess.run(train_op, feed_dict=feed)
        print(kind, sess.run(accuracy, feed) > 0.9)
        for v in tf.trainable_variables()[2:4]:
            print(v.name, v.get_shape())
