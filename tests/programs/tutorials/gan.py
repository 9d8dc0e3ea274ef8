"""A GAN of two optimizers, each with the variables of its scope; and the pieces of a DCGAN."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(6)
tf.set_random_seed(3)


def generator(z, reuse=None):
    with tf.variable_scope("generator", reuse=reuse):
        h = tf.layers.dense(z, 16, tf.nn.softplus, name="g0")
        return tf.layers.dense(h, 1, name="g1")


def discriminator(x, reuse=None):
    with tf.variable_scope("discriminator", reuse=reuse):
        h = tf.layers.dense(x, 16, tf.nn.leaky_relu, name="d0")
        h = tf.layers.dense(h, 16, tf.tanh, name="d1")
        return tf.layers.dense(h, 1, name="d2")


z = tf.placeholder(tf.float32, [None, 4])
x = tf.placeholder(tf.float32, [None, 1])
G = generator(z)
D1 = discriminator(x)
D2 = discriminator(G, reuse=True)
d_loss = tf.reduce_mean(
    tf.nn.sigmoid_cross_entropy_with_logits(logits=D1, labels=tf.ones_like(D1))
    + tf.nn.sigmoid_cross_entropy_with_logits(logits=D2, labels=tf.zeros_like(D2))
)
g_loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=D2, labels=tf.ones_like(D2)))
g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="generator")
d_vars = [v for v in tf.trainable_variables() if v.name.startswith("discriminator/")]
opt_d = tf.train.AdamOptimizer(0.005, beta1=0.5).minimize(d_loss, var_list=d_vars)
opt_g = tf.train.AdamOptimizer(0.005, beta1=0.5).minimize(g_loss, var_list=g_vars)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    frozen = sess.run(g_vars)
    sess.run(opt_d, {x: rng.randn(8, 1), z: rng.rand(8, 4)})
    print("apart", all(np.array_equal(a, b) for a, b in zip(frozen, sess.run(g_vars))))
    for step in range(600):
        real = rng.randn(64, 1) * 0.5 + 4
        sess.run([d_loss, opt_d], {x: real, z: rng.rand(64, 4)})
        sess.run([g_loss, opt_g], {z: rng.rand(64, 4)})
    made = sess.run(G, {z: rng.rand(500, 4)})
    print("mean near 4", abs(made.mean() - 4) < 1.5)

tf.reset_default_graph()
tf.set_random_seed(4)


def dc_generator(x, is_training, reuse=False):
    with tf.variable_scope("Generator", reuse=reuse):
        x = tf.layers.dense(x, units=3 * 3 * 16)
        x = tf.layers.batch_normalization(x, training=is_training)
        x = tf.nn.relu(x)
        x = tf.reshape(x, shape=[-1, 3, 3, 16])
        x = tf.layers.conv2d_transpose(x, 8, 4, strides=2, padding="same")
        x = tf.layers.batch_normalization(x, training=is_training)
        x = tf.nn.relu(x)
        return tf.nn.tanh(tf.layers.conv2d_transpose(x, 1, 4, strides=2, padding="same"))


def dc_discriminator(x, is_training, reuse=False):
    with tf.variable_scope("Discriminator", reuse=reuse):
        x = tf.layers.conv2d(x, 8, 4, strides=2, padding="same")
        x = tf.layers.batch_normalization(x, training=is_training)
        x = tf.nn.leaky_relu(x)
        x = tf.reshape(x, shape=[-1, 6 * 6 * 8])
        return tf.layers.dense(x, 2)


noise_input = tf.placeholder(tf.float32, shape=[None, 10])
real_image = tf.placeholder(tf.float32, shape=[None, 12, 12, 1])
is_training = tf.placeholder(tf.bool)
fake = dc_generator(noise_input, is_training)
disc_real = dc_discriminator(real_image, is_training)
disc_fake = dc_discriminator(fake, is_training, reuse=True)
disc_concat = tf.concat([disc_real, disc_fake], axis=0)
disc_target = tf.placeholder(tf.int32, shape=[None])
disc_loss = tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(logits=disc_concat, labels=disc_target)
)
disc_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="Discriminator")
disc_update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope="Discriminator")
print(fake.get_shape(), len(disc_update_ops), len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)))
with tf.control_dependencies(disc_update_ops):
    train_disc = tf.train.AdamOptimizer(0.002, 0.5, 0.999).minimize(disc_loss, var_list=disc_vars)
moving = [v for v in tf.global_variables() if "moving_mean" in v.name]
print([v.name for v in moving])
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    real = np.ones((16, 12, 12, 1)) * np.linspace(-1, 1, 12)[:, None, None]
    feed = {
        real_image: real + 0.1 * rng.randn(16, 12, 12, 1),
        noise_input: rng.uniform(-1, 1, [16, 10]),
        disc_target: [1] * 16 + [0] * 16,
        is_training: True,
    }
    losses = [sess.run([train_disc, disc_loss], feed)[1] for _ in range(30)]
    print("discriminates", losses[-1] < 0.1 < losses[0])
    feed[is_training] = False
    print("moved", np.abs(sess.run(moving[2])).max() > 0, sess.run(fake, feed).shape)
