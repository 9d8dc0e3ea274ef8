"""tf.data: one-shot, initializable, reinitializable and feedable iterators, transformations."""

import os
import tempfile

import numpy as np

import sparkflow as tf

dataset1 = tf.data.Dataset.from_tensor_slices(tf.random_uniform([4, 10]))
print(dataset1.output_types, dataset1.output_shapes)
dataset2 = tf.data.Dataset.from_tensor_slices(
    {"a": tf.random_uniform([4]), "b": tf.random_uniform([4, 100], maxval=100, dtype=tf.int32)}
)
print(dataset2.output_types["b"], dataset2.output_shapes["b"])
print(tf.data.Dataset.zip((dataset1, dataset2)).output_shapes[0])

dataset = tf.data.Dataset.range(5)
next_element = dataset.make_one_shot_iterator().get_next()
with tf.Session() as sess:
    print([sess.run(next_element) for _ in range(5)])
    try:
        sess.run(next_element)
    except tf.errors.OutOfRangeError:
        print("End of dataset")

max_value = tf.placeholder(tf.int64, shape=[])
iterator = tf.data.Dataset.range(max_value).make_initializable_iterator()
next_element = iterator.get_next()
with tf.Session() as sess:
    for size in (3, 4):
        sess.run(iterator.initializer, feed_dict={max_value: size})
        print([sess.run(next_element) for _ in range(size)])

training = tf.data.Dataset.range(100).map(lambda x: x + 10)
validation = tf.data.Dataset.range(50)
iterator = tf.data.Iterator.from_structure(training.output_types, training.output_shapes)
next_element = iterator.get_next()
training_init = iterator.make_initializer(training)
validation_init = iterator.make_initializer(validation)
with tf.Session() as sess:
    for init in (training_init, validation_init):
        sess.run(init)
        print(sess.run(next_element), sess.run(next_element))

handle = tf.placeholder(tf.string, shape=[])
iterator = tf.data.Iterator.from_string_handle(
    handle, training.output_types, training.output_shapes
)
next_element = iterator.get_next()
training_iterator = training.repeat().make_one_shot_iterator()
validation_iterator = validation.make_initializable_iterator()
with tf.Session() as sess:
    training_handle = sess.run(training_iterator.string_handle())
    validation_handle = sess.run(validation_iterator.string_handle())
    sess.run(validation_iterator.initializer)
    print([sess.run(next_element, {handle: training_handle}) for _ in range(2)])
    print([sess.run(next_element, {handle: validation_handle}) for _ in range(2)])
    print(sess.run(next_element, {handle: training_handle}))


def run_all(dataset, limit=20):
    element = dataset.make_one_shot_iterator().get_next()
    found = []
    with tf.Session() as sess:
        try:
            while len(found) < limit:
                found.append(sess.run(element))
        except tf.errors.OutOfRangeError:
            pass
    return found


inc = tf.data.Dataset.range(7)
dec = tf.data.Dataset.range(0, -7, -1)
print(run_all(tf.data.Dataset.zip((inc, dec)).batch(4))[1])
padded = tf.data.Dataset.range(5).map(lambda x: tf.fill([tf.cast(x, tf.int32)], x))
print(run_all(padded.padded_batch(3, padded_shapes=[None]))[1].tolist())
print(run_all(inc.filter(lambda x: tf.equal(x % 2, 1)).repeat(2).skip(1).take(4)))
print(sorted(run_all(inc.shuffle(3, seed=1))), run_all(inc.concatenate(dec))[6:9])
print(run_all(inc.flat_map(lambda x: tf.data.Dataset.from_tensors(x).repeat(x)), 5))
print(
    run_all(
        tf.data.Dataset.range(1, 4).interleave(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(3), cycle_length=2, block_length=2
        )
    )
)


def generate():
    for i in range(3):
        yield i, [1] * i


generated = tf.data.Dataset.from_generator(
    generate, (tf.int64, tf.int64), (tf.TensorShape([]), tf.TensorShape([None]))
)
print([(a, b.tolist()) for a, b in run_all(generated)])
folder = tempfile.mkdtemp()
path = os.path.join(folder, "lines.txt")
with open(path, "w") as f:
    f.write("# head\nfirst\nsecond\n#no\nthird\n")
lines = tf.data.Dataset.from_tensor_slices([path]).flat_map(
    lambda name: (
        tf.data.TextLineDataset(name)
        .skip(1)
        .filter(lambda line: tf.not_equal(tf.substr(line, 0, 1), "#"))
    )
)
print(run_all(lines))
records = os.path.join(folder, "r.tfrecord")
with tf.python_io.TFRecordWriter(records) as writer:
    for i in range(4):
        feature = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i + 0.5]))}
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        writer.write(example.SerializeToString())


def parse(serialized):
    return tf.parse_single_example(serialized, {"x": tf.FixedLenFeature([2], tf.float32)})["x"]


parsed = tf.data.TFRecordDataset([records]).map(parse, num_parallel_calls=2).prefetch(1)
print(np.concatenate(run_all(parsed.batch(3))).tolist())
fused = inc.apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 3, drop_remainder=True))
print(run_all(fused), fused.output_shapes)
print(run_all(inc.shard(3, 1)), run_all(inc.window(3).flat_map(lambda w: w.batch(3)))[0])
print(run_all(inc.map(lambda x: tf.py_func(lambda v: v * 10, [x], tf.int64)))[3])
