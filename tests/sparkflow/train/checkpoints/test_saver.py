import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.checkpoints import state_file
from sparkflow_runtime.checkpoint import bundle_writer
from sparkflow_runtime.testing.local_cluster import LocalCluster

GOLDEN = Path(__file__).parents[3] / "golden/checkpoints"


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def initialised(session):
    session.run(tf.global_variables_initializer())
    return session


def test_variables_come_back_without_being_initialised(tmp_path):
    w = tf.Variable([[1.0, 2.0]], name="w")
    text = tf.Variable(["a", "bc"], name="text")
    saver = tf.train.Saver()
    with tf.Session() as session:
        initialised(session)
        prefix = saver.save(session, f"{tmp_path}/model.ckpt", global_step=7)
    assert prefix == f"{tmp_path}/model.ckpt-7"
    assert files(tmp_path) == [
        "checkpoint",
        "model.ckpt-7.data-00000-of-00001",
        "model.ckpt-7.index",
        "model.ckpt-7.meta",
    ]
    with tf.Session() as session:
        saver.restore(session, tf.train.latest_checkpoint(str(tmp_path)))
        assert session.run(w).tolist() == [[1, 2]]
        assert session.run(text).tolist() == [b"a", b"bc"]


def test_nodes_have_the_names_and_types_of_tensorflow(graph):
    """The nodes that TensorFlow's Saver creates for two variables."""
    tf.Variable(1.0, name="a")
    tf.Variable(2.0, name="b")
    saver = tf.train.Saver()
    made = [(op.name, op.type) for op in graph.get_operations() if op.name.startswith("save/")]
    assert made == [
        ("save/filename/input", "Const"),
        ("save/filename", "PlaceholderWithDefault"),
        ("save/Const", "PlaceholderWithDefault"),
        ("save/SaveV2/tensor_names", "Const"),
        ("save/SaveV2/shape_and_slices", "Const"),
        ("save/SaveV2", "SaveV2"),
        ("save/control_dependency", "Identity"),
        ("save/RestoreV2/tensor_names", "Const"),
        ("save/RestoreV2/shape_and_slices", "Const"),
        ("save/RestoreV2", "RestoreV2"),
        ("save/Assign", "Assign"),
        ("save/Assign_1", "Assign"),
        ("save/restore_all", "NoOp"),
    ]
    message = saver.as_saver_def()
    assert message.filename_tensor_name == "save/Const:0"
    assert message.save_tensor_name == "save/control_dependency:0"
    assert message.restore_op_name == "save/restore_all"
    assert (message.max_to_keep, message.version) == (5, tf.train.SaverDef.V2)


def test_subsets_and_other_names(tmp_path):
    a = tf.Variable(1.0, name="a")
    b = tf.Variable(2.0, name="b")
    with tf.Session() as session:
        initialised(session)
        tf.train.Saver({"old_a": a}).save(session, f"{tmp_path}/x")
        assert tf.train.list_variables(f"{tmp_path}/x") == [("old_a", [])]
        session.run([a.assign(8.0), b.assign(9.0)])
        tf.train.Saver({"old_a": b}).restore(session, f"{tmp_path}/x")
        assert session.run([a, b]) == [8.0, 1.0]


def test_parts_of_a_variable_are_saved_as_one_and_cut_anew(tmp_path):
    def build(parts):
        return tf.get_variable(
            "v",
            [6, 2],
            initializer=tf.random_uniform_initializer(),
            partitioner=tf.fixed_size_partitioner(parts),
        )

    with tf.Graph().as_default(), tf.Session() as session:
        value = tf.convert_to_tensor(build(3))
        initialised(session)
        tf.train.Saver().save(session, f"{tmp_path}/x")
        expected = session.run(value)
    assert tf.train.list_variables(f"{tmp_path}/x") == [("v", [6, 2])]
    with tf.Graph().as_default(), tf.Session() as session:
        value = tf.convert_to_tensor(build(2))
        tf.train.Saver().restore(session, f"{tmp_path}/x")
        np.testing.assert_array_equal(session.run(value), expected)


def test_only_the_newest_are_kept(tmp_path):
    tf.Variable(1.0)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        initialised(session)
        for step in range(4):
            saver.save(session, f"{tmp_path}/x", step)
        assert saver.last_checkpoints == [f"{tmp_path}/x-2", f"{tmp_path}/x-3"]
        saver.save(session, f"{tmp_path}/x", 2)  # saving the same again makes it the newest
        assert saver.last_checkpoints == [f"{tmp_path}/x-3", f"{tmp_path}/x-2"]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == saver.last_checkpoints
    assert {name.split(".")[0] for name in files(tmp_path)} == {"checkpoint", "x-2", "x-3"}


def test_the_checkpoint_begun_last_is_the_latest(tmp_path, monkeypatch):
    step = tf.train.get_or_create_global_step()
    saver = tf.train.Saver()
    write, begun, may_go_on = saver._write, threading.Event(), threading.Event()

    def slow(session, prefix):
        if prefix.endswith("-0"):
            begun.set()
            assert may_go_on.wait(60)
        return write(session, prefix)

    monkeypatch.setattr(saver, "_write", slow)
    with tf.Session() as session:
        initialised(session)
        service = threading.Thread(
            target=saver.save, args=(session, f"{tmp_path}/model.ckpt", step), daemon=True
        )
        service.start()
        assert begun.wait(60)
        session.run(step.assign_add(30))
        threading.Timer(0.2, may_go_on.set).start()
        saver.save(session, f"{tmp_path}/model.ckpt", global_step=step)
        service.join(60)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-30")
    assert [path[-2:] for path in saver.last_checkpoints] == ["-0", "30"]


@pytest.mark.parametrize("most", [0, None])
def test_all_are_kept_when_asked(tmp_path, most):
    tf.Variable(1.0)
    saver = tf.train.Saver(max_to_keep=most)
    with tf.Session() as session:
        initialised(session)
        for step in range(7):
            saver.save(session, f"{tmp_path}/x", step, write_meta_graph=False)
    assert len([name for name in files(tmp_path) if name.endswith(".index")]) == 7
    assert saver.last_checkpoints == []
    assert tf.train.latest_checkpoint(str(tmp_path)) == f"{tmp_path}/x-6"


def test_one_in_some_hours_stays(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("sparkflow.train.checkpoints.saver.time.time", lambda: now[0])
    tf.Variable(1.0)
    saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1)
    with tf.Session() as session:
        initialised(session)
        for step in range(6):
            now[0] += 1500.0
            saver.save(session, f"{tmp_path}/x", step, write_meta_graph=False)
    kept = [name.split(".")[0] for name in files(tmp_path) if name.endswith(".index")]
    assert kept == ["x-2", "x-4", "x-5"]  # written at 5500 and 8500 s, after 4600 and 8200 s


def test_a_saver_takes_over_what_another_kept(tmp_path):
    tf.Variable(1.0)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        initialised(session)
        for step in range(2):
            saver.save(session, f"{tmp_path}/x", step)
        other = tf.train.Saver(max_to_keep=2)
        other.recover_last_checkpoints([f"{tmp_path}/gone", *saver.last_checkpoints])
        assert other.last_checkpoints == saver.last_checkpoints
        other.save(session, f"{tmp_path}/x", 2)
    assert not tf.train.checkpoint_exists(f"{tmp_path}/x-0")
    other.set_last_checkpoints(["a"])
    assert other.last_checkpoints == ["a"]
    with pytest.raises(AssertionError, match="as a list"):
        other.set_last_checkpoints("a")


def test_paths_can_be_relative_in_the_state_file(tmp_path):
    tf.Variable(1.0)
    saver = tf.train.Saver(save_relative_paths=True, pad_step_number=True)
    with tf.Session() as session:
        initialised(session)
        saver.save(session, f"{tmp_path}/a/x", 5)
    assert 'model_checkpoint_path: "x-00000005"' in (tmp_path / "a/checkpoint").read_text()
    (tmp_path / "a").rename(tmp_path / "b")
    assert tf.train.latest_checkpoint(f"{tmp_path}/b") == f"{tmp_path}/b/x-00000005"


def test_reshaped_variables(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.Variable([1.0, 2.0, 3.0, 4.0], name="v")
        initialised(session)
        tf.train.Saver().save(session, f"{tmp_path}/x")
    v = tf.Variable(tf.zeros([2, 2]), name="v")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="a mismatch between the current"):
            tf.train.Saver().restore(session, f"{tmp_path}/x")
        tf.train.Saver(reshape=True).restore(session, f"{tmp_path}/x")
        assert session.run(v).tolist() == [[1, 2], [3, 4]]


def test_what_cannot_be_restored(tmp_path):
    tf.Variable(1.0, name="v")
    saver = tf.train.Saver()
    with tf.Session() as session:
        initialised(session)
        saver.save(session, f"{tmp_path}/x")
        with pytest.raises(ValueError, match="The passed save_path is not a valid checkpoint: /no"):
            saver.restore(session, "/no")
        with pytest.raises(ValueError, match="Can't load save_path when it is None"):
            saver.restore(session, None)
        tf.Variable(1.0, name="other")
        with pytest.raises(tf.errors.NotFoundError, match="Key other not found in checkpoint"):
            tf.train.Saver().restore(session, f"{tmp_path}/x")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.Variable(1, name="v")
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected dtype int32"):
            tf.train.Saver().restore(session, f"{tmp_path}/x")


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()
    a = tf.Variable(1.0, name="a")
    with pytest.raises(TypeError, match="should be passed in a dict or a list"):
        tf.train.Saver(a)
    with pytest.raises(ValueError, match="At least two variables have the same name: a"):
        tf.train.Saver([a, a])
    with pytest.raises(ValueError, match="restored with two names"):
        tf.train.Saver({"x": a, "y": a})
    with pytest.raises(TypeError, match="Name is not a string: 3"):
        tf.train.Saver({3: a})
    with pytest.raises(TypeError, match="Variable to save is not a Variable"):
        tf.train.Saver([tf.constant(1.0)])
    with pytest.raises(ValueError, match="build cannot be deferred"):
        tf.train.Saver([a], defer_build=True)
    with pytest.raises(ValueError, match="must specify the save_tensor_name"):
        tf.train.Saver(saver_def=tf.train.SaverDef())
    saver = tf.train.Saver()
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value a"):
            saver.save(session, f"{tmp_path}/x")
        initialised(session)
        with pytest.raises(ValueError, match="doesn't exist, can't save"):
            saver.save(session, f"{tmp_path}/a/b/x")
        with pytest.raises(ValueError, match="must not contain path components"):
            saver.save(session, f"{tmp_path}/x", latest_filename="a/b")
        with pytest.raises(ValueError, match="collides with 'save_path'"):
            saver.save(session, f"{tmp_path}/checkpoint")
        with pytest.raises(TypeError, match="must be a Session"):
            saver.save("session", f"{tmp_path}/x")
    assert not [name for name in files(tmp_path) if name.startswith("x")]


def test_empty_and_deferred_savers(tmp_path):
    empty = tf.train.Saver(allow_empty=True)
    deferred = tf.train.Saver(defer_build=True)
    a = tf.Variable(1.0, name="a")
    with tf.Session() as session:
        initialised(session)
        assert empty.save(session, f"{tmp_path}/x", write_meta_graph=False) is None
        empty.restore(session, f"{tmp_path}/x")
        assert files(tmp_path) == []
        with pytest.raises(RuntimeError, match="`build\\(\\)` should be called before save"):
            deferred.save(session, f"{tmp_path}/x")
        deferred.build()
        deferred.save(session, f"{tmp_path}/x")
        session.run(a.assign(4.0))
        deferred.restore(session, f"{tmp_path}/x")
        assert session.run(a) == 1.0


def test_a_failed_save_leaves_the_one_before(tmp_path, monkeypatch):
    a = tf.Variable(1.0, name="a")
    saver = tf.train.Saver()
    with tf.Session() as session:
        initialised(session)
        saver.save(session, f"{tmp_path}/x", write_meta_graph=False)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        session.run(a.assign(2.0))

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(bundle_writer.os, "fsync", full)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left on device"):
            saver.save(session, f"{tmp_path}/x", write_meta_graph=False)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        saver.restore(session, f"{tmp_path}/x")
        assert session.run(a) == 1.0


def test_saving_beside_training_gives_checkpoints_that_can_be_read(tmp_path):
    v = tf.Variable(tf.zeros([50_000]), name="v")
    train = v.assign_add(tf.ones([50_000]))
    saver = tf.train.Saver(max_to_keep=0)
    done = threading.Event()
    with tf.Session() as session:
        initialised(session)
        run = session.make_callable(train.op)

        def trains():
            while not done.is_set():
                run()

        thread = threading.Thread(target=trains)
        thread.start()
        try:
            for step in range(20):
                saver.save(session, f"{tmp_path}/x", step, write_meta_graph=False)
        finally:
            done.set()
            thread.join()
    for step in range(20):
        assert tf.train.load_variable(f"{tmp_path}/x-{step}", "v").shape == (50_000,)


def test_messages_name_the_nodes_and_scopes(graph):
    tf.Variable(1.0, name="a")
    with tf.name_scope("scope"):
        saver = tf.train.Saver()
    inside = saver.to_proto("scope")
    assert inside.save_tensor_name == "save/control_dependency:0"
    assert saver.to_proto("elsewhere") is None
    again = tf.train.Saver.from_proto(inside, import_scope="scope")
    assert again.as_saver_def() == saver.as_saver_def()


def test_each_ps_writes_its_shard(tmp_path):
    with LocalCluster(num_ps=2, num_workers=1) as cluster, tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            a = tf.Variable([1.0, 2.0], name="a")
        with tf.device("/job:ps/task:1"):
            b = tf.Variable(3, name="b")
        saver = tf.train.Saver(sharded=True)
        devices = [op.device for op in graph.get_operations() if op.type == "SaveV2"]
        assert devices == [f"/job:ps/task:{task}/device:CPU:0" for task in (0, 1)]
        with tf.Session(cluster.target("worker", 0)) as session:
            initialised(session)
            assert saver.save(session, f"{tmp_path}/x", 1) == f"{tmp_path}/x-1"
            assert files(tmp_path) == [
                "checkpoint",
                "x-1.data-00000-of-00002",
                "x-1.data-00001-of-00002",
                "x-1.index",
                "x-1.meta",
            ]
            session.run([a.assign([0.0, 0.0]), b.assign(0)])
            saver.restore(session, f"{tmp_path}/x-1")
            assert session.run(a).tolist() == [1, 2]
            assert session.run(b) == 3


def test_a_program_of_tensorflow_goes_on_where_it_stopped():
    """Its graph, collections, saver and checkpoint, then three more steps of its training."""
    expected = json.loads((GOLDEN / "program/expected.json").read_text())
    saver = tf.train.import_meta_graph(GOLDEN / "program/model-3.meta")
    assert [v.op.name for v in tf.trainable_variables()] == ["layer/w", "layer/b"]
    assert tf.get_collection("my_numbers") == [3]
    assert tf.get_collection("my_ops")[0].name == "train"
    assert len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)) == 1
    feed = {"x:0": expected["x"], "y:0": expected["y"]}
    with tf.Session() as session:
        saver.restore(session, GOLDEN / "program/model-3")
        (prediction,) = tf.get_collection("my_tensors")
        np.testing.assert_allclose(session.run(prediction, feed), expected["prediction"], rtol=1e-5)
        (step,) = tf.get_collection("averaged")
        losses = [session.run(["loss:0", step], feed)[0] for _ in expected["losses"]]
        np.testing.assert_allclose(losses, expected["losses"], rtol=1e-5)
        assert session.run(tf.train.get_global_step()) == 6


def test_state_files_are_never_half_written(tmp_path, monkeypatch):
    state_file.update_checkpoint_state(tmp_path, f"{tmp_path}/a")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
        state_file.update_checkpoint_state(tmp_path, f"{tmp_path}/b")
    assert files(tmp_path) == ["checkpoint"]
    assert f'model_checkpoint_path: "{tmp_path}/a"' in (tmp_path / "checkpoint").read_text()
