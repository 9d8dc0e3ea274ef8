"""REINFORCE on a bandit whose rewards come from py_func; gradients kept and fed back."""

import numpy as np

import sparkflow as tf

tf.set_random_seed(9)
bandits = np.array([0.2, 0.0, -0.2, 1.5], np.float32)
rng = np.random.RandomState(0)


def pull(action):
    return np.float32(1.0 if rng.randn() < bandits[action] else -1.0)


weights = tf.Variable(tf.ones([4]))
action = tf.multinomial(tf.expand_dims(weights, 0), 1)[0, 0]
reward = tf.py_func(pull, [action], tf.float32)
reward.set_shape([])
responsible = tf.slice(tf.nn.softmax(weights), tf.reshape(action, [1]), [1])
loss = -(tf.log(responsible) * tf.stop_gradient(reward))
update = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(400):
        sess.run(update)
    print("best arm", np.argmax(sess.run(weights)))

tf.reset_default_graph()
tf.set_random_seed(1)
state_in = tf.placeholder(tf.float32, [None, 3])
hidden = tf.contrib.layers.fully_connected(
    state_in, 8, biases_initializer=None, activation_fn=tf.nn.relu
)
output = tf.contrib.layers.fully_connected(
    hidden, 2, activation_fn=tf.nn.softmax, biases_initializer=None
)
reward_holder = tf.placeholder(shape=[None], dtype=tf.float32)
action_holder = tf.placeholder(shape=[None], dtype=tf.int32)
indexes = tf.range(0, tf.shape(output)[0]) * tf.shape(output)[1] + action_holder
responsible_outputs = tf.gather(tf.reshape(output, [-1]), indexes)
loss = -tf.reduce_mean(tf.log(responsible_outputs) * reward_holder)
tvars = tf.trainable_variables()
gradient_holders = [
    tf.placeholder(tf.float32, name="%d_holder" % idx) for idx, _ in enumerate(tvars)
]
gradients = tf.gradients(loss, tvars)
update_batch = tf.train.AdamOptimizer(0.05).apply_gradients(zip(gradient_holders, tvars))
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for episode in range(80):
        buffer = sess.run(tvars)
        for ix, grad in enumerate(buffer):
            buffer[ix] = grad * 0
        states = rng.randn(20, 3)
        probabilities = sess.run(output, {state_in: states})
        actions = (rng.rand(20) < probabilities[:, 1]).astype(int)
        rewards = np.where(actions == (states[:, 0] > 0), 1.0, -1.0)
        feed = {reward_holder: rewards, action_holder: actions, state_in: states}
        for idx, grad in enumerate(sess.run(gradients, feed_dict=feed)):
            buffer[idx] += grad
        sess.run(update_batch, dict(zip(gradient_holders, buffer)))
    states = rng.randn(200, 3)
    chosen = sess.run(output, {state_in: states}).argmax(1)
    print("policy", np.mean(chosen == (states[:, 0] > 0)) > 0.85)
