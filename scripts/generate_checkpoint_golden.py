"""Writes tests/golden/checkpoints: files by TensorFlow, and their content.

    /path/to/python-with-tensorflow scripts/generate_checkpoint_golden.py

It runs by hand, in an environment with tensorflow 2.21, not in CI. Everything is TensorFlow's
version 1 API: graphs with reference variables and savers, frozen graphs, saved models.
"""

import json
import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests/golden/checkpoints"


def variables() -> None:
    """Writes variables of every kind in both checkpoint formats, with their values."""
    tf.get_variable("scalar", initializer=np.int64(7))
    tf.get_variable("flags", initializer=np.array([True, False]))
    tf.get_variable("empty", initializer=tf.zeros([0, 3]))
    tf.get_variable("texts", initializer=tf.constant([b"one", b"", "ü" * 50]), dtype=tf.string)
    tf.get_variable(
        "parts",
        [7, 4],
        initializer=tf.random_uniform_initializer(seed=1),
        partitioner=tf.fixed_size_partitioner(3),
    )
    tf.get_variable("half", initializer=tf.constant([1.5, -2], tf.float16))
    with tf.variable_scope("scope"):
        tf.get_variable("complex", initializer=tf.constant([1 + 2j, -1j], tf.complex64))
    held = tf.global_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = {}
        for variable in held:
            value = session.run(variable)
            if value.dtype == object:
                value = [text.decode() for text in value]
            elif value.dtype.kind == "c":
                value = [[number.real, number.imag] for number in value.tolist()]
            else:
                value = value.tolist()
            part = variable._get_save_slice_info()
            if part is None:
                expected[variable.op.name] = value
            else:
                expected.setdefault(part.full_name, []).extend(value)
        tf.train.Saver(write_version=2).save(session, f"{TARGET}/variables/second", 3)
        tf.train.Saver(write_version=1).save(
            session, f"{TARGET}/variables/first", write_meta_graph=False
        )
    with tf.Session() as session:
        extra = tf.get_variable("bfloat", initializer=tf.constant([1.5, -2], tf.bfloat16))
        session.run(extra.initializer)
        tf.train.Saver([extra], sharded=True).save(
            session, f"{TARGET}/variables/bfloat", write_meta_graph=False
        )
    (TARGET / "variables/expected.json").write_text(json.dumps(expected) + "\n")
    (TARGET / "variables/checkpoint").unlink()


def training_program() -> None:
    """A regression with momentum, queue runner, saver, summaries: graph and checkpoint."""
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    with tf.variable_scope("layer"):
        w = tf.get_variable("w", [3, 1], initializer=tf.constant_initializer(0.5))
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    prediction = tf.add(tf.matmul(x, w), b, name="prediction")
    loss = tf.reduce_mean(tf.square(prediction - y), name="loss")
    step = tf.train.get_or_create_global_step()
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step, name="train")
    tf.add_to_collection("my_ops", train)
    tf.add_to_collection("my_tensors", prediction)
    tf.add_to_collection("my_numbers", 3)
    tf.add_to_collection("my_texts", "text")
    averages = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([train]):
        averaged = averages.apply([w, b])
    tf.add_to_collection("averaged", averaged)
    queue = tf.train.input_producer(tf.constant([1.0, 2.0]), shuffle=False, name="produced")
    tf.add_to_collection("dequeued", queue.dequeue(name="dequeued"))
    tf.summary.scalar("loss", loss)
    saver = tf.train.Saver(max_to_keep=3)
    tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    inputs, targets = rng.random((8, 3), np.float32), rng.random((8, 1), np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        feed = {x: inputs, y: targets}
        for _ in range(3):
            session.run(averaged, feed)
        saver.save(session, f"{TARGET}/program/model", step, write_state=False)
        expected = {"prediction": session.run(prediction, feed).tolist(), "losses": []}
        for _ in range(3):
            expected["losses"].append(float(session.run([loss, averaged], feed)[0]))
    expected |= {"x": inputs.tolist(), "y": targets.tolist()}
    (TARGET / "program/expected.json").write_text(json.dumps(expected) + "\n")


def convnet(x: tf.Tensor) -> tf.Tensor:
    """A small network with typical layers."""
    w = tf.get_variable("conv/w", initializer=tf.random_normal([3, 3, 1, 4], stddev=0.5, seed=1))
    b = tf.get_variable("conv/b", initializer=tf.random_normal([4], seed=2))
    x = tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b)
    scale = tf.get_variable("bn/scale", initializer=tf.random_uniform([4], 0.5, 1.5, seed=3))
    mean = tf.get_variable("bn/mean", initializer=tf.random_normal([4], seed=4))
    x, _, _ = tf.nn.fused_batch_norm(
        x, scale, tf.zeros([4]), mean, tf.ones([4]) * 0.7, is_training=False
    )
    x = tf.nn.max_pool(tf.nn.relu(x), [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    x = tf.nn.dropout(tf.identity(x), keep_prob=tf.placeholder_with_default(1.0, [], "keep"))
    x = tf.reshape(x, [-1, 4 * 4 * 4])
    dense = tf.get_variable("dense/w", initializer=tf.random_normal([64, 5], seed=5))
    bias = tf.get_variable("dense/b", initializer=tf.random_normal([5], seed=6))
    return tf.nn.softmax(tf.nn.xw_plus_b(x, dense, bias), name="probabilities")


def frozen_graph() -> None:
    """The convnet with constants instead of variables."""
    x = tf.placeholder(tf.float32, [None, 8, 8, 1], name="image")
    y = convnet(x)
    images = np.random.default_rng(1).random((2, 8, 8, 1), np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(
            session, session.graph.as_graph_def(), ["probabilities"]
        )
        expected = {"probabilities": session.run(y, {x: images}).tolist()}
    (TARGET / "frozen").mkdir(parents=True, exist_ok=True)
    tf.train.write_graph(frozen, f"{TARGET}/frozen", "graph.pb", as_text=False)
    expected["images"] = images.tolist()
    (TARGET / "frozen/expected.json").write_text(json.dumps(expected) + "\n")


def saved_models() -> None:
    """The convnet as saved models: by the builder with assets, and by simple_save."""
    x = tf.placeholder(tf.float32, [None, 8, 8, 1], name="image")
    y = convnet(x)
    vocabulary = TARGET / "vocabulary.txt"
    vocabulary.write_text("a\nb\n")
    asset = tf.constant(str(vocabulary), name="vocabulary_path")
    tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
    images = np.random.default_rng(2).random((2, 8, 8, 1), np.float32)
    ready = tf.Variable(0, name="ready", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = {"probabilities": session.run(y, {x: images}).tolist()}
        signature = tf.saved_model.signature_def_utils.predict_signature_def(
            {"image": x}, {"probabilities": y}
        )
        builder = tf.saved_model.Builder(str(TARGET / "saved_model"))
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.tag_constants.SERVING],
            {"serving_default": signature},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.group(ready.initializer, name="main_op"),
        )
        builder.save()
        tf.saved_model.simple_save(session, str(TARGET / "simple"), {"image": x}, {"y": y})
    vocabulary.unlink()
    expected["images"] = images.tolist()
    (TARGET / "saved_model/expected.json").write_text(json.dumps(expected) + "\n")


def objects() -> None:
    """An object-based checkpoint: a module with nested parts, an optimizer, a step counter."""

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable([1.0, 2.0], name="w")
            self.parts = [tf.Variable(3.0, name="a"), {"x.y/z": tf.Variable(4.0, name="b")}]

    with tf.Session() as session:
        net, step = Net(), tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(0.1)
        loss = tf.reduce_sum(net.w * net.w) + net.parts[0] * net.parts[1]["x.y/z"]
        train = optimizer.minimize(loss, global_step=step)
        checkpoint = tf.train.Checkpoint(net=net, optimizer=optimizer, step=step)
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        checkpoint.save(str(TARGET / "objects" / "ckpt"))
        values = session.run([net.w, net.parts[0], optimizer.get_slot(net.w, "m")])
    expected = [np.asarray(value).tolist() for value in values]
    (TARGET / "objects/expected.json").write_text(json.dumps(expected) + "\n")


def main() -> int:
    """Writes everything again."""
    tf.disable_v2_behavior()
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for make in (variables, training_program, frozen_graph, saved_models, objects):
        with tf.Graph().as_default():
            make()
    size = sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file())
    print(f"wrote {TARGET.relative_to(ROOT)}: {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
