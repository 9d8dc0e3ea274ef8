"""Linear regression of few points, one at a time, with gradient descent."""

import numpy

import sparkflow as tf

learning_rate = 0.01
training_epochs = 100
display_step = 50
train_X = numpy.asarray([3.3, 4.4, 5.5, 6.71, 6.93, 4.168, 9.779, 6.182, 7.59, 2.167, 7.042])
train_Y = numpy.asarray([1.7, 2.76, 2.09, 3.19, 1.694, 1.573, 3.366, 2.596, 2.53, 1.221, 2.827])
n_samples = train_X.shape[0]

X = tf.placeholder("float")
Y = tf.placeholder("float")
W = tf.Variable(0.3, name="weight")
b = tf.Variable(-0.2, name="bias")
pred = tf.add(tf.multiply(X, W), b)
cost = tf.reduce_sum(tf.pow(pred - Y, 2)) / (2 * n_samples)
optimizer = tf.train.GradientDescentOptimizer(learning_rate).minimize(cost)
init = tf.global_variables_initializer()

with tf.Session() as sess:
    sess.run(init)
    for epoch in range(training_epochs):
        for x, y in zip(train_X, train_Y):
            sess.run(optimizer, feed_dict={X: x, Y: y})
        if (epoch + 1) % display_step == 0:
            c = sess.run(cost, feed_dict={X: train_X, Y: train_Y})
            print("Epoch:", "%04d" % (epoch + 1), "cost=", f"{c:.5f}")
    training_cost = sess.run(cost, feed_dict={X: train_X, Y: train_Y})
    print("Training cost= %.5f W= %.5f b= %.5f" % (training_cost, sess.run(W), sess.run(b)))
    test_X = numpy.asarray([6.83, 4.668, 8.9, 7.91])
    test_Y = numpy.asarray([1.84, 2.273, 3.2, 2.831])
    testing_cost = sess.run(
        tf.reduce_sum(tf.pow(pred - Y, 2)) / (2 * test_X.shape[0]), feed_dict={X: test_X, Y: test_Y}
    )
    print("Testing cost= %.5f difference= %.5f" % (testing_cost, abs(training_cost - testing_cost)))
