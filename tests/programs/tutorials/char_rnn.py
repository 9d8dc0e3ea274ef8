"""A character language model: embedding, MultiRNNCell, state fed from run to run, sampling."""

import collections

import numpy as np

import sparkflow as tf

text = "the quick brown fox jumps over the lazy dog. " * 20
counter = collections.Counter(text)
chars = sorted(counter)
vocab = {c: i for i, c in enumerate(chars)}
tensor = np.array([vocab[c] for c in text])
batch_size, seq_length, rnn_size, num_layers = 5, 20, 32, 2
num_batches = tensor.size // (batch_size * seq_length)
tensor = tensor[: num_batches * batch_size * seq_length]
ydata = np.copy(tensor)
ydata[:-1], ydata[-1] = tensor[1:], tensor[0]
x_batches = np.split(tensor.reshape(batch_size, -1), num_batches, 1)
y_batches = np.split(ydata.reshape(batch_size, -1), num_batches, 1)


class Model:
    def __init__(self, batch_size, seq_length, infer=False):
        cells = []
        for _ in range(num_layers):
            cell = tf.nn.rnn_cell.BasicLSTMCell(rnn_size, state_is_tuple=True)
            if not infer:
                cell = tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=0.95)
            cells.append(cell)
        self.cell = cell = tf.nn.rnn_cell.MultiRNNCell(cells, state_is_tuple=True)
        self.input_data = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.targets = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.initial_state = cell.zero_state(batch_size, tf.float32)
        with tf.variable_scope("rnnlm"):
            softmax_w = tf.get_variable("softmax_w", [rnn_size, len(chars)])
            softmax_b = tf.get_variable("softmax_b", [len(chars)])
            embedding = tf.get_variable("embedding", [len(chars), rnn_size])
            inputs = tf.nn.embedding_lookup(embedding, self.input_data)
            outputs, self.final_state = tf.nn.dynamic_rnn(
                cell, inputs, initial_state=self.initial_state
            )
        output = tf.reshape(outputs, [-1, rnn_size])
        self.logits = tf.matmul(output, softmax_w) + softmax_b
        self.probs = tf.nn.softmax(self.logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(self.targets, [-1]), logits=self.logits
        )
        self.cost = tf.reduce_sum(loss) / batch_size / seq_length
        if infer:
            return
        self.lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, self.norm = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5.0)
        optimizer = tf.train.AdamOptimizer(self.lr)
        self.train_op = optimizer.apply_gradients(zip(grads, tvars))


tf.set_random_seed(11)
with tf.variable_scope("model"):
    model = Model(batch_size, seq_length)
with tf.variable_scope("model", reuse=True):
    sampler = Model(1, 1, infer=True)

with tf.Session() as sess:
    tf.global_variables_initializer().run()
    costs = []
    for e in range(25):
        sess.run(tf.assign(model.lr, 0.03 * (0.97**e)))
        state = sess.run(model.initial_state)
        for x, y in zip(x_batches, y_batches):
            feed = {model.input_data: x, model.targets: y}
            for i, (c, h) in enumerate(model.initial_state):
                feed[c] = state[i].c
                feed[h] = state[i].h
            cost, state, _ = sess.run([model.cost, model.final_state, model.train_op], feed)
        costs.append(cost)
    print("learnt", costs[-1] < 0.5 < 2.5 < costs[0])
    state = sess.run(sampler.cell.zero_state(1, tf.float32))
    sentence = "the q"
    for char in sentence[:-1]:
        feed = {sampler.input_data: [[vocab[char]]], sampler.initial_state: state}
        [state] = sess.run([sampler.final_state], feed)
    for _ in range(10):
        feed = {sampler.input_data: [[vocab[sentence[-1]]]], sampler.initial_state: state}
        probs, state = sess.run([sampler.probs, sampler.final_state], feed)
        sentence += chars[int(np.argmax(probs[0]))]
    print(sentence)
