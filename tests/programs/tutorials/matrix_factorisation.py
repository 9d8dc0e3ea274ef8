"""Ratings as products of embeddings, sparse Adagrad updates, and SVD-like checks."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(14)
USERS, ITEMS, RANK = 30, 20, 3
truth = rng.randn(USERS, RANK).dot(rng.randn(RANK, ITEMS))
user = rng.randint(0, USERS, 2000)
item = rng.randint(0, ITEMS, 2000)
rating = truth[user, item]
initial = [rng.randn(n, RANK).astype(np.float32) * 0.3 for n in (USERS, ITEMS)]

user_batch = tf.placeholder(tf.int32, shape=[None], name="id_user")
item_batch = tf.placeholder(tf.int32, shape=[None], name="id_item")
rate_batch = tf.placeholder(tf.float32, shape=[None])
with tf.device("/cpu:0"):
    bias_global = tf.get_variable("bias_global", shape=[], initializer=tf.zeros_initializer())
    w_bias_user = tf.get_variable(
        "embd_bias_user", shape=[USERS], initializer=tf.zeros_initializer()
    )
    bias_user = tf.nn.embedding_lookup(w_bias_user, user_batch, name="bias_user")
    w_user = tf.get_variable("embd_user", initializer=initial[0])
    w_item = tf.get_variable("embd_item", initializer=initial[1])
    embd_user = tf.nn.embedding_lookup(w_user, user_batch, name="embedding_user")
    embd_item = tf.nn.embedding_lookup(w_item, item_batch, name="embedding_item")
infer = tf.reduce_sum(tf.multiply(embd_user, embd_item), 1)
infer = tf.add(tf.add(infer, bias_global), bias_user, name="svd_inference")
regularizer = tf.add(tf.nn.l2_loss(embd_user), tf.nn.l2_loss(embd_item), name="reg")
cost = tf.add(tf.nn.l2_loss(tf.subtract(infer, rate_batch)), 1e-3 * regularizer)
global_step = tf.train.create_global_step()
optimizer = tf.train.AdagradOptimizer(0.3, initial_accumulator_value=0.1)
grads = optimizer.compute_gradients(cost)
print([(type(g).__name__, v.op.name) for g, v in grads])
train_op = optimizer.apply_gradients(grads, global_step=global_step)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(200):
        chosen = slice(i * 100 % 2000, i * 100 % 2000 + 100)
        feed = {user_batch: user[chosen], item_batch: item[chosen], rate_batch: rating[chosen]}
        sess.run(train_op, feed_dict=feed)
        if i % 50 == 49:
            print("%d %.3f" % (sess.run(global_step), sess.run(cost, feed)))
    everything = {user_batch: user, item_batch: item}
    rmse = np.sqrt(np.mean((sess.run(infer, everything) - rating) ** 2))
    print("rmse %.3f" % rmse)
    s = tf.svd(tf.matmul(w_user, w_item, transpose_b=True), compute_uv=False)
    print("rank", int(tf.reduce_sum(tf.cast(s > 1e-3, tf.int32)).eval()))

tf.reset_default_graph()
ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 3, 2], tf.int64), [2, 2])
table = tf.get_variable(
    "table", [6, 2], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2)
)
summed = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="mean")
train = tf.train.AdagradOptimizer(0.5).minimize(tf.reduce_sum(tf.square(summed)))
print([v.name for v in tf.trainable_variables()])
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    print(np.round(sess.run(tf.convert_to_tensor(table)), 4).tolist())
