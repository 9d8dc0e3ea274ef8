"""Q-learning of a corridor, by a table in a variable that is scattered into, and by a network."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(7)
N = 6


def move(state, action):
    state = max(state - 1, 0) if action == 0 else state + 1
    return state, float(state == N - 1), state == N - 1


q = tf.Variable(tf.zeros([N, 2]), name="q")
s, a, r, s2, done = [
    tf.placeholder(t, [], n)
    for t, n in zip(
        [tf.int32, tf.int32, tf.float32, tf.int32, tf.bool], ["s", "a", "r", "s2", "done"]
    )
]
old = q[s, a]
target = r + tf.where(done, 0.0, 0.9 * tf.reduce_max(tf.gather(q, s2)))
td = target - old
learn = tf.scatter_nd_add(q, [[s, a]], [0.5 * td])
greedy = tf.argmax(tf.gather(q, s), axis=0)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for episode in range(60):
        state, over = 0, False
        while not over:
            action = rng.randint(2) if rng.rand() < 0.5 else sess.run(greedy, {s: state})
            new, reward, over = move(state, action)
            sess.run(learn, {s: state, a: action, r: reward, s2: new, done: over})
            state = new
    print([int(sess.run(greedy, {s: i})) for i in range(N - 1)])
    print("%.2f" % sess.run(q)[0, 1])

tf.reset_default_graph()
tf.set_random_seed(2)
inputs1 = tf.placeholder(shape=[1, N], dtype=tf.float32)
W = tf.Variable(tf.random_uniform([N, 2], 0, 0.01))
Qout = tf.matmul(inputs1, W)
predict = tf.argmax(Qout, 1)
nextQ = tf.placeholder(shape=[1, 2], dtype=tf.float32)
loss = tf.reduce_sum(tf.square(nextQ - Qout))
updateModel = tf.train.GradientDescentOptimizer(learning_rate=0.1).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.initialize_all_variables())
    for i in range(60):
        state, over = 0, False
        while not over:
            chosen, allQ = sess.run([predict, Qout], {inputs1: np.identity(N)[state : state + 1]})
            if rng.rand(1) < 0.5:
                chosen[0] = rng.randint(2)
            new, reward, over = move(state, chosen[0])
            Q1 = sess.run(Qout, feed_dict={inputs1: np.identity(N)[new : new + 1]})
            allQ[0, chosen[0]] = reward + 0.9 * np.max(Q1) * (not over)
            sess.run([updateModel, W], {inputs1: np.identity(N)[state : state + 1], nextQ: allQ})
            state = new
    print(np.argmax(sess.run(W), 1)[: N - 1])
