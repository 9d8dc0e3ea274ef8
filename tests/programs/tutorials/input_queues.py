"""Records written, read by queues of file names in threads, shuffled in batches, and counted."""

import os
import tempfile

import numpy as np

import sparkflow as tf

folder = tempfile.mkdtemp()
filenames = []
for part in range(3):
    name = os.path.join(folder, "part-%d.tfrecords" % part)
    filenames.append(name)
    writer = tf.python_io.TFRecordWriter(name)
    for i in range(part * 10, part * 10 + 10):
        raw = np.full([4], i, np.uint8).tobytes()
        example = tf.train.Example(
            features=tf.train.Features(
                feature={
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                    "image_raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[raw])),
                    "ragged": tf.train.Feature(
                        float_list=tf.train.FloatList(value=[0.5] * (i % 3))
                    ),
                }
            )
        )
        writer.write(example.SerializeToString())
    writer.close()
print(sum(1 for _ in tf.python_io.tf_record_iterator(filenames[0])))


def read_and_decode(filename_queue):
    reader = tf.TFRecordReader()
    _, serialized_example = reader.read(filename_queue)
    features = tf.parse_single_example(
        serialized_example,
        features={
            "image_raw": tf.FixedLenFeature([], tf.string),
            "label": tf.FixedLenFeature([], tf.int64),
            "ragged": tf.VarLenFeature(tf.float32),
        },
    )
    image = tf.decode_raw(features["image_raw"], tf.uint8)
    image.set_shape([4])
    image = tf.cast(image, tf.float32) * (1.0 / 255) - 0.5
    return image, tf.cast(features["label"], tf.int32), tf.shape(features["ragged"])[0]


with tf.name_scope("input"):
    filename_queue = tf.train.string_input_producer(filenames, num_epochs=2)
    image, label, size = read_and_decode(filename_queue)
    images, labels, sizes = tf.train.shuffle_batch(
        [image, label, size],
        batch_size=8,
        num_threads=2,
        capacity=40,
        min_after_dequeue=10,
        allow_smaller_final_batch=True,
    )
print(images.get_shape(), labels.dtype)
total = tf.Variable(0, name="total")
add = total.assign_add(tf.reduce_sum(labels))
init_op = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())
with tf.Session() as sess:
    sess.run(init_op)
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    seen = []
    try:
        while not coord.should_stop():
            pixels, marks, _ = sess.run([images, labels, add])
            assert np.allclose(pixels[:, 0], marks / 255.0 - 0.5)
            seen.extend(marks)
    except tf.errors.OutOfRangeError:
        print("Done training -- epoch limit reached")
    finally:
        coord.request_stop()
    coord.join(threads)
    print(len(seen), sorted(seen) == sorted(list(range(30)) * 2), seen == sorted(seen))
    print(sess.run(total) == sum(seen))

tf.reset_default_graph()
path = os.path.join(folder, "data.csv")
with open(path, "w") as f:
    f.write("a,b\n" + "".join("%d,%s\n" % (i, "odd" if i % 2 else "even") for i in range(5)))
reader = tf.TextLineReader(skip_header_lines=1)
key, value = reader.read(tf.train.string_input_producer([path], shuffle=False))
number, kind = tf.decode_csv(value, record_defaults=[[0], [""]])
numbers, kinds = tf.train.batch([number, kind], batch_size=5)
queue = tf.FIFOQueue(10, tf.float32, shapes=[[]])
enqueue = queue.enqueue_many([tf.random_uniform([3], 1.0, 2.0)])
runner = tf.train.QueueRunner(queue, [enqueue] * 2)
tf.train.add_queue_runner(runner)
out = queue.dequeue_many(7)
with tf.Session() as sess:
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(coord=coord)
    print(*sess.run([numbers, kinds]))
    print(sess.run(key).split(b"/")[-1].split(b":")[0])
    print(sess.run(out).min() >= 1)
    coord.request_stop()
    coord.join(threads)
