"""Style transfer in small: an image is optimised towards content features and Gram matrices."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(13)
kernel1 = (rng.randn(3, 3, 3, 6) * 0.2).astype(np.float32)
kernel2 = (rng.randn(3, 3, 6, 8) * 0.2).astype(np.float32)
content = rng.rand(1, 16, 16, 3).astype(np.float32)
style = rng.rand(1, 16, 16, 3).astype(np.float32) ** 3


def net(image):
    one = tf.nn.relu(tf.nn.conv2d(image, kernel1, [1, 1, 1, 1], "SAME"), name="relu1")
    pooled = tf.nn.avg_pool(one, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    two = tf.nn.relu(tf.nn.conv2d(pooled, kernel2, [1, 1, 1, 1], "SAME"), name="relu2")
    return {"relu1": one, "relu2": two}


def gram(layer):
    shape = layer.get_shape()
    num_channels = int(shape[3])
    matrix = tf.reshape(layer, shape=[-1, num_channels])
    return tf.matmul(tf.transpose(matrix), matrix) / tf.cast(tf.size(layer), tf.float32)


def total_variation(x):
    return tf.reduce_sum(tf.abs(x[:, 1:, :, :] - x[:, :-1, :, :])) + tf.reduce_sum(
        tf.abs(x[:, :, 1:, :] - x[:, :, :-1, :])
    )


with tf.Session() as sess:
    content_target = net(tf.constant(content))["relu2"].eval()
    style_targets = {k: sess.run(gram(v)) for k, v in net(tf.constant(style)).items()}
    initial = tf.constant(content * 0.5 + 0.25)
    image = tf.Variable(initial)
    layers = net(image)
    content_loss = 2 * tf.nn.l2_loss(layers["relu2"] - content_target) / content_target.size
    style_loss = tf.add_n(
        [
            tf.reduce_sum(tf.squared_difference(gram(layers[k]), style_targets[k]))
            for k in sorted(layers)
        ]
    )
    loss = content_loss + 10 * style_loss + 1e-5 * total_variation(image)
    train_step = tf.train.AdamOptimizer(0.02).minimize(loss)
    clip = tf.assign(image, tf.clip_by_value(image, 0.0, 1.0))
    sess.run(tf.global_variables_initializer())
    for i in range(40):
        if i % 20 == 0:
            print("%.5f %.5f %.5f" % tuple(sess.run([loss, content_loss, style_loss])))
        sess.run(train_step)
        sess.run(clip)
    print("%.4f" % sess.run(loss))
    print(
        abs(sess.run(tf.image.total_variation(image))[0] - sess.run(total_variation(image))) < 1e-2
    )
    y = tf.placeholder(tf.float32, [16, 16, 3])
    dream = sess.run(
        tf.gradients(tf.reduce_mean(tf.square(net(y[tf.newaxis])["relu1"])), y)[0], {y: style[0]}
    )
    print("%.4f" % (np.abs(dream).mean() * 1e4))
    resized = tf.image.resize_bilinear(tf.expand_dims(y, 0), [8, 24])[0, :, :, :]
    print(resized.get_shape(), "%.4f" % resized.eval({y: style[0]}).mean())
