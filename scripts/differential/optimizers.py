"""Optimizers over five steps, dense and by rows that repeat; clipping; decay; moving averages."""

PREAMBLE = """
START = np.array([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5], [1.0, -0.1]])

def steps_of(make, dtype=np.float32, sparse=False, count=5, constraint=None, clip=None):
    w = tf.get_variable("w", initializer=START.astype(dtype), constraint=constraint)
    b = tf.get_variable("b", initializer=np.array([0.1, 0.2], dtype))
    step = tf.train.get_or_create_global_step()
    target = np.array([[1.0, 0.5]] * 4, dtype)
    if sparse:
        rows = tf.gather(w, [1, 3, 1, 0])
        loss = tf.reduce_sum(tf.square(rows * np.array([[1.0], [0.5], [2.0], [0.3]], dtype) + b))
    else:
        loss = tf.reduce_sum(tf.square(w + b - target) * np.array([1.0, 3.0], dtype))
    optimizer = make(step)
    if clip is not None:
        pairs = optimizer.compute_gradients(loss)
        pairs = [(clip(grad), variable) for grad, variable in pairs if grad is not None]
        train = optimizer.apply_gradients(pairs, global_step=step)
    else:
        train = optimizer.minimize(loss, global_step=step)
    names = sorted(v.name for v in tf.global_variables())
    slots = optimizer.get_slot_names()
    made = [v.name for v in optimizer.variables()]
    after = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(count):
            session.run(train)
        after = session.run([w, b, step] + optimizer.variables())
    return [names, slots, made, train.type, train.name] + after

def scheduled(decay, steps):
    step = tf.placeholder(tf.int64, [])
    rate = decay(step)
    with tf.Session() as session:
        return [rate.dtype.name, np.array([session.run(rate, {step: n}) for n in steps])]

w = tf.get_variable("v", initializer=START.astype(np.float32))
x = tf.constant(np.random.RandomState(0).randn(4, 3), tf.float32)
"""

_MAKERS = """
tf.train.GradientDescentOptimizer(0.1)
tf.train.GradientDescentOptimizer(lambda: 0.1)
tf.train.GradientDescentOptimizer(tf.constant(0.1), use_locking=True, name="descent")
tf.train.GradientDescentOptimizer(tf.train.exponential_decay(0.1, step, 2, 0.5))
tf.train.MomentumOptimizer(0.05, 0.9)
tf.train.MomentumOptimizer(lambda: 0.05, lambda: 0.9, use_nesterov=True)
tf.train.MomentumOptimizer(0.05, tf.constant(0.5), name="mom")
tf.train.AdagradOptimizer(0.5)
tf.train.AdagradOptimizer(0.5, initial_accumulator_value=1.0)
tf.train.AdagradDAOptimizer(0.5, step)
tf.train.AdagradDAOptimizer(0.5, step, 0.3, l1_regularization_strength=0.2, \
l2_regularization_strength=0.1)
tf.train.AdadeltaOptimizer()
tf.train.AdadeltaOptimizer(1.0, 0.9, 1e-3)
tf.train.RMSPropOptimizer(0.01)
tf.train.RMSPropOptimizer(0.01, decay=0.8, momentum=0.5, epsilon=1e-3)
tf.train.RMSPropOptimizer(0.01, momentum=0.5, centered=True, epsilon=1e-3)
tf.train.AdamOptimizer()
tf.train.AdamOptimizer(0.05, 0.8, 0.95, 1e-4)
tf.train.AdamOptimizer(learning_rate=lambda: 0.05, beta1=lambda: 0.8, name="adam2")
tf.train.FtrlOptimizer(0.5)
tf.train.FtrlOptimizer(0.5, -0.6, 0.2, 0.1, 0.2)
tf.train.FtrlOptimizer(0.5, l1_regularization_strength=0.1, \
l2_shrinkage_regularization_strength=0.3)
tf.train.FtrlOptimizer(0.5, accum_name="squares", linear_name="line")
tf.train.ProximalGradientDescentOptimizer(0.1)
tf.train.ProximalGradientDescentOptimizer(0.1, 0.5, 0.2)
tf.train.ProximalAdagradOptimizer(0.5)
tf.train.ProximalAdagradOptimizer(0.5, 0.2, 0.5, 0.2)
"""
_REST = """
steps_of(lambda step: tf.train.AdamOptimizer(0.1), np.float64)
steps_of(lambda step: tf.train.MomentumOptimizer(0.1, 0.5), np.float64, sparse=True)
steps_of(lambda step: tf.train.GradientDescentOptimizer(0.125), np.float16, count=1)
steps_of(lambda step: tf.train.GradientDescentOptimizer(0.1), constraint=lambda v: v * 0.5)
steps_of(lambda step: tf.train.GradientDescentOptimizer(0.1), sparse=True, constraint=lambda v: v)
steps_of(lambda step: tf.train.GradientDescentOptimizer(0.5), clip=lambda g: tf.clip_by_norm(g, 1.0))
steps_of(lambda step: tf.train.AdamOptimizer(0.5), clip=lambda g: tf.clip_by_value(g, -0.3, 0.3))
tf.train.GradientDescentOptimizer(0.1, name="")
tf.train.AdagradOptimizer(0.1, initial_accumulator_value=0.0)
tf.train.FtrlOptimizer(0.1, learning_rate_power=0.1)
tf.train.FtrlOptimizer(0.1, l1_regularization_strength=-0.1)
tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0))
tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0), var_list=[])
tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.cast(w, tf.int32)))
tf.train.GradientDescentOptimizer(0.1).compute_gradients(tf.reduce_sum(w), gate_gradients=7)
tf.train.GradientDescentOptimizer(0.1).apply_gradients([])
tf.train.GradientDescentOptimizer(0.1).apply_gradients([(None, w)])
tf.train.GradientDescentOptimizer(0.1).apply_gradients([(object(), w)])
tf.train.GradientDescentOptimizer(0.1).apply_gradients([(x, x)])
tf.train.GradientDescentOptimizer(0.1).compute_gradients(tf.reduce_sum(x * x), [x])[0][0]
tf.train.GradientDescentOptimizer(0.1).compute_gradients(tf.reduce_sum(w * w), w)[0][0]
tf.train.AdamOptimizer(0.1).compute_gradients(w * w, grad_loss=tf.fill([4, 2], 2.0))[0][0]
tf.train.AdamOptimizer().get_slot_names()
tf.train.AdamOptimizer(0.1).get_slot(w, "m")
tf.train.AdamOptimizer(0.1).get_name()
[g.type for g in [tf.train.AdamOptimizer().minimize(tf.reduce_sum(w), gate_gradients=2)]]
tf.gradients(w * w, w, aggregation_method=tf.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N)
[tf.AggregationMethod.ADD_N, tf.AggregationMethod.DEFAULT, tf.AggregationMethod.EXPERIMENTAL_TREE]
tf.hessians(tf.reduce_sum(tf.exp(x[0])), x)
tf.hessians(x[0] * x[0] * x[1], [x, x])
tf.hessians(tf.constant(1.0), x)
tf.clip_by_value(x, -0.5, 0.5)
tf.clip_by_value(x, [-0.5, 0.0, -1.0], 0.5)
tf.clip_by_value(x[0], tf.fill([4, 3], -0.5), 0.5)
tf.clip_by_value(tf.constant([1, 5, 9]), 2, 6)
tf.clip_by_value(tf.IndexedSlices(x, tf.constant([0, 2, 4, 6])), -0.5, 0.5)
tf.clip_by_norm(x, 1.0)
tf.clip_by_norm(x, 1.0, axes=[1])
tf.clip_by_norm(x, 100.0)
tf.clip_by_norm(tf.zeros([3]), 1.0)
tf.clip_by_norm(tf.IndexedSlices(x, tf.constant([0, 2, 4, 6])), 0.5)
tf.clip_by_average_norm(x, 0.1)
tf.clip_by_average_norm(x, 10.0)
tf.clip_by_average_norm(t=x, clip_norm=0.2, name="average")
tf.clip_by_global_norm([x, None, x * 2], 1.5)[0][0]
tf.clip_by_global_norm([x, x * 2], 1.5)
tf.clip_by_global_norm([x, x * 2], 1.5, use_norm=tf.constant(2.0))
tf.clip_by_global_norm(x, 1.5)
tf.clip_by_global_norm([x * np.inf], 1.5)
tf.clip_by_global_norm([tf.IndexedSlices(x, tf.constant([0, 2, 4, 6])), x], 0.5)[0]
tf.global_norm([x, x * 2])
tf.global_norm(x)
scheduled(lambda s: tf.train.exponential_decay(0.1, s, 10, 0.96), [0, 1, 15, 100])
scheduled(lambda s: tf.train.exponential_decay(0.1, s, 10, 0.96, staircase=True), [0, 9, 10, 25])
scheduled(lambda s: tf.train.exponential_decay(tf.constant(0.1, tf.float64), s, 10, 0.5), [0, 25])
tf.train.exponential_decay(0.1, None, 10, 0.96)
scheduled(lambda s: tf.train.natural_exp_decay(0.1, s, 10, 0.5), [0, 1, 15])
scheduled(lambda s: tf.train.natural_exp_decay(0.1, s, 10, 0.5, True), [0, 9, 10, 25])
scheduled(lambda s: tf.train.inverse_time_decay(0.1, s, 10, 0.5), [0, 1, 15])
scheduled(lambda s: tf.train.inverse_time_decay(0.1, s, 10, 0.5, staircase=True), [0, 9, 10, 25])
scheduled(lambda s: tf.train.polynomial_decay(0.1, s, 10), [0, 1, 5, 10, 15])
scheduled(lambda s: tf.train.polynomial_decay(0.1, s, 10, 0.01, 0.5), [0, 1, 5, 10, 15])
scheduled(lambda s: tf.train.polynomial_decay(0.1, s, 10, 0.01, 2.0, cycle=True), [0, 5, 10, 15, 21])
scheduled(lambda s: tf.train.piecewise_constant(s, [3, 6], [1.0, 0.5, 0.1]), [0, 3, 4, 6, 7, 99])
scheduled(lambda s: tf.train.piecewise_constant(s, [3], [1, 2]), [0, 3, 4])
tf.train.piecewise_constant(tf.constant(1), [3, 6], [1.0, 0.5])
tf.train.piecewise_constant(tf.constant(1), [3.0], [1.0, 0.5])
tf.train.piecewise_constant(tf.constant(1.0), [3.0], [1.0, 0.5])
tf.train.piecewise_constant(tf.constant(1), [3], [1.0, 1])
scheduled(lambda s: tf.train.cosine_decay(0.1, s, 10), [0, 3, 10, 15])
scheduled(lambda s: tf.train.cosine_decay(0.1, s, 10, alpha=0.2), [0, 3, 10, 15])
scheduled(lambda s: tf.train.cosine_decay_restarts(0.1, s, 10), [0, 9, 10, 25, 29, 31, 69])
scheduled(lambda s: tf.train.cosine_decay_restarts(0.1, s, 10, 1.0, 0.5, 0.1), [0, 9, 10, 25, 31])
scheduled(lambda s: tf.train.cosine_decay_restarts(0.1, s, 10, 1.5, 0.9), [0, 9, 11, 25, 31])
scheduled(lambda s: tf.train.linear_cosine_decay(0.1, s, 10), [0, 3, 9, 10, 15])
scheduled(lambda s: tf.train.linear_cosine_decay(0.1, s, 10, 1.5, 0.1, 0.2), [0, 3, 9, 10, 15])
---
average = tf.train.ExponentialMovingAverage(0.5)
update = average.apply()
names = [v.name for v in tf.global_variables()] + [average.average_name(w), update.type, update.name]
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(w.assign(w * 3))
    session.run(update)
    session.run(update)
    value = session.run(average.average(w))
[names, value, sorted(average.variables_to_restore())]
---
average = tf.train.ExponentialMovingAverage(0.9, num_updates=tf.constant(3), zero_debias=True)
total = tf.reduce_sum(w * w, 1, name="total")
update = average.apply([w, total])
names = sorted(v.name for v in tf.global_variables())
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    values = []
    for _ in range(4):
        session.run(update)
        session.run(w.assign(w * 1.5))
        values.append(session.run([average.average(w), average.average(total)]))
[names, values, average.average(x) is None, average.average_name(x)]
---
average = tf.train.ExponentialMovingAverage(0.9, name="slow")
average.apply([tf.constant([1, 2])])
---
with tf.name_scope("train"):
    train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w * w))
sorted(v.name for v in tf.global_variables()) + [train.name]
---
optimizer = tf.train.AdamOptimizer(0.1)
first = optimizer.minimize(tf.reduce_sum(w * w))
second = optimizer.minimize(tf.reduce_sum(w * x[0, 0]), name="second")
[v.name for v in tf.global_variables()] + [first.name, second.name]
---
train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(w * w))
[train is tf.get_collection(tf.GraphKeys.TRAIN_OP)[0], len(tf.trainable_variables())]
---
loss = tf.reduce_sum(w * w)
pairs = tf.train.GradientDescentOptimizer(1.0).compute_gradients(loss)
grads = [tf.Variable(tf.ones(grad.shape)) for grad, _ in pairs]
train = tf.train.GradientDescentOptimizer(1.0).apply_gradients(zip(grads, [w]))
train.type
"""
EXPRESSIONS = (
    "".join(
        f"steps_of(lambda step: {line}{rows})\n"
        for line in _MAKERS.replace("\\\n", "").strip().splitlines()
        for rows in ("", ", sparse=True")
    )
    + _REST
)
WITH_RESPECT_TO = ()
