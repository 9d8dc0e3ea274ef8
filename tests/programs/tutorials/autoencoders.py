"""An autoencoder, a denoising one of tied weights, and a variational one."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(5)
codes = rng.randint(0, 2, (400, 4))
basis = rng.rand(4, 24)
data = np.clip(codes.dot(basis) / 4 + 0.02 * rng.randn(400, 24), 0.01, 0.99).astype(np.float32)

X = tf.placeholder("float", [None, 24])
weights = {
    "encoder_h1": tf.Variable(tf.random_normal([24, 12], stddev=0.3, seed=1)),
    "encoder_h2": tf.Variable(tf.random_normal([12, 4], stddev=0.3, seed=2)),
    "decoder_h1": tf.Variable(tf.random_normal([4, 12], stddev=0.3, seed=3)),
    "decoder_h2": tf.Variable(tf.random_normal([12, 24], stddev=0.3, seed=4)),
}
biases = {k: tf.Variable(tf.zeros([v.get_shape()[1].value])) for k, v in weights.items()}


def coder(x, one, two):
    layer_1 = tf.nn.sigmoid(tf.add(tf.matmul(x, weights[one]), biases[one]))
    return tf.nn.sigmoid(tf.add(tf.matmul(layer_1, weights[two]), biases[two]))


y_pred = coder(coder(X, "encoder_h1", "encoder_h2"), "decoder_h1", "decoder_h2")
cost = tf.reduce_mean(tf.pow(X - y_pred, 2))
optimizer = tf.train.RMSPropOptimizer(0.03).minimize(cost)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    before = sess.run(cost, {X: data})
    for _ in range(200):
        sess.run(optimizer, {X: data})
    print("autoencoder", sess.run(cost, {X: data}) < before * 0.9)

tf.reset_default_graph()
x = tf.placeholder(tf.float32, [None, 24])
noise = x + 0.05 * tf.random_normal(tf.shape(x), seed=1)
W = tf.get_variable("W", [24, 8], initializer=tf.contrib.layers.xavier_initializer(seed=2))
b = tf.get_variable("b", [8], initializer=tf.zeros_initializer)
c = tf.get_variable("c", [24], initializer=tf.zeros_initializer)
rebuilt = tf.matmul(tf.tanh(tf.matmul(noise, W) + b), W, transpose_b=True) + c
tied = tf.losses.mean_squared_error(x, rebuilt)
step = tf.train.AdagradOptimizer(0.1).minimize(tied)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    first = sess.run(tied, {x: data})
    for _ in range(150):
        sess.run(step, {x: data})
    print("denoising", sess.run(tied, {x: data}) < first / 4)


def glorot_init(shape):
    return tf.random_normal(shape=shape, stddev=1.0 / tf.sqrt(shape[0] / 2.0))


tf.reset_default_graph()
tf.set_random_seed(7)
input_image = tf.placeholder(tf.float32, shape=[None, 24])
hidden = tf.nn.tanh(tf.matmul(input_image, tf.Variable(glorot_init([24, 16]))))
z_mean = tf.matmul(hidden, tf.Variable(glorot_init([16, 2])))
z_std = tf.matmul(hidden, tf.Variable(glorot_init([16, 2])))
eps = tf.random_normal(tf.shape(z_std), dtype=tf.float32, mean=0.0, stddev=1.0, name="epsilon")
z = z_mean + tf.exp(z_std / 2) * eps
decoder_h, decoder_out = tf.Variable(glorot_init([2, 16])), tf.Variable(glorot_init([16, 24]))


def decode(z):
    return tf.nn.sigmoid(tf.matmul(tf.nn.tanh(tf.matmul(z, decoder_h)), decoder_out))


def vae_loss(x_reconstructed, x_true):
    encode_decode_loss = x_true * tf.log(1e-10 + x_reconstructed) + (1 - x_true) * tf.log(
        1e-10 + 1 - x_reconstructed
    )
    encode_decode_loss = -tf.reduce_sum(encode_decode_loss, 1)
    kl_div_loss = 1 + z_std - tf.square(z_mean) - tf.exp(z_std)
    kl_div_loss = -0.5 * tf.reduce_sum(kl_div_loss, 1)
    return tf.reduce_mean(encode_decode_loss + kl_div_loss)


loss_op = vae_loss(decode(z), input_image)
train_op = tf.train.RMSPropOptimizer(learning_rate=0.01).minimize(loss_op)
noise_input = tf.placeholder(tf.float32, shape=[None, 2])
generated = decode(noise_input)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    losses = [sess.run([train_op, loss_op], {input_image: data})[1] for _ in range(200)]
    print("variational", losses[-1] < losses[0] - 1)
    print(sess.run(generated, {noise_input: rng.randn(3, 2)}).shape)
