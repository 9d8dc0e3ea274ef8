"""`tf.train.Checkpoint` and `CheckpointManager`: objects by the names of attributes."""

import json
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.graph.default_stack import default_graphs
from sparkflow.train.checkpoints.object_graph import OBJECT_GRAPH_KEY, ObjectGraph
from sparkflow_runtime.testing.local_cluster import LocalCluster

GOLDEN = Path(__file__).parents[3] / "golden/checkpoints/objects"


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable([1.0, 2.0], name="w")
        self.parts = [tf.Variable(3.0, name="a"), {"x.y/z": tf.Variable(4.0, name="b")}]

    def loss(self):
        return tf.reduce_sum(self.w * self.w) + self.parts[0] * self.parts[1]["x.y/z"]


class Program:
    """A network, its optimizer and step counter, in a separate graph."""

    def __init__(self, target="", restored=None):
        with tf.Graph().as_default() as self.graph:
            self.net, self.step = Net(), tf.train.get_or_create_global_step()
            self.optimizer = tf.train.AdamOptimizer(0.1)
            self.checkpoint = tf.train.Checkpoint(
                net=self.net, optimizer=self.optimizer, step=self.step
            )
            self.status = None if restored is None else self.checkpoint.restore(restored)
            self.train = self.optimizer.minimize(self.net.loss(), global_step=self.step)
            self.initialise = tf.global_variables_initializer()
            self.session = tf.Session(target)

    def state(self):
        with self.graph.as_default():
            return self._state()

    def _state(self):
        slots = [self.optimizer.get_slot(self.net.w, name) for name in ("m", "v")]
        beta = self.optimizer._get_beta_accumulators()
        found = [self.net.w, *self.net.parts[:1], *slots, *beta, self.step]
        return [np.asarray(each).tolist() for each in self.session.run(found)]

    def trained(self, steps=3):
        self.session.run(self.initialise)
        for _ in range(steps):
            self.session.run(self.train)
        return self


def save(program, path):
    with program.graph.as_default():
        return program.checkpoint.save(path, program.session)


@pytest.mark.parametrize("remote", [False, True])
def test_everything_comes_back_though_slots_were_made_after_restore(tmp_path, remote):
    with LocalCluster(num_ps=0, num_workers=1) as cluster:
        target = cluster.target("worker", 0) if remote else ""
        first = Program(target).trained()
        path = save(first, tmp_path / "deep" / "ckpt")
        assert path == str(tmp_path / "deep" / "ckpt-1")
        assert tf.train.latest_checkpoint(str(tmp_path / "deep")) == path
        second = Program(target, restored=path)
        with second.graph.as_default():
            second.status.assert_consumed().assert_existing_objects_matched()
            second.status.initialize_or_restore(second.session)
        assert second.state() == first.state()
        assert save(second, tmp_path / "deep" / "ckpt").endswith("ckpt-2")


def test_reads_what_tensorflow_wrote():
    program = Program(restored=str(GOLDEN / "ckpt-1"))
    with program.graph.as_default(), program.session:
        program.status.assert_consumed().run_restore_ops()
        w, a, m = json.loads((GOLDEN / "expected.json").read_text())
        state = program.state()
    np.testing.assert_allclose(state[0], w)
    np.testing.assert_allclose(state[1], a)
    np.testing.assert_allclose(state[2], m)
    assert state[-1] == 3


def test_names_of_tensors_are_tensorflows(tmp_path):
    path = save(Program().trained(1), tmp_path / "ckpt")
    ours = dict(tf.train.list_variables(path))
    theirs = dict(tf.train.list_variables(str(GOLDEN / "ckpt-1")))
    assert ours == theirs
    assert "net/parts/1/x..y.Sz/.ATTRIBUTES/VARIABLE_VALUE" in ours
    assert "net/w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE" in ours
    assert OBJECT_GRAPH_KEY in ours


def test_what_is_left_is_named(tmp_path):
    path = save(Program().trained(1), tmp_path / "ckpt")
    with tf.Graph().as_default():
        other = tf.train.Checkpoint(net=Net())
        status = other.restore(path)
        status.assert_existing_objects_matched().assert_nontrivial_match().expect_partial()
        with pytest.raises(AssertionError, match=r"Unresolved object in checkpoint .root..\w+"):
            status.assert_consumed()
        other.more = tf.Variable(1.0, name="more")
        with pytest.raises(AssertionError, match=r"1 Python objects that were not bound.*more"):
            status.assert_existing_objects_matched()
        nothing = tf.train.Checkpoint(elsewhere=Net()).restore(path)
        with pytest.raises(AssertionError, match="Nothing to load"):
            nothing.assert_nontrivial_match()
        with pytest.raises(RuntimeError, match="need a default session"):
            status.initialize_or_restore()


def test_other_shapes_are_refused(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        checkpoint = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0]))
        session.run(tf.global_variables_initializer())
        path = checkpoint.save(tmp_path / "ckpt")
    with tf.Graph().as_default(), tf.Session():
        status = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0, 3.0])).restore(path)
        with pytest.raises(tf.errors.InvalidArgumentError):
            status.run_restore_ops()


def test_no_checkpoint_initializes():
    program = Program()
    with program.graph.as_default(), program.session:
        status = program.checkpoint.restore(None)
        with pytest.raises(AssertionError, match="No checkpoint specified"):
            status.assert_consumed()
        status.initialize_or_restore()
        assert program.state()[0] == [1.0, 2.0]


def test_checkpoints_of_savers_are_found_by_names_of_variables(tmp_path):
    program = Program().trained()
    with program.graph.as_default():
        saved = program.state()
        path = tf.train.Saver().save(program.session, str(tmp_path / "model"))
    other = Program(restored=path)
    with other.graph.as_default(), other.session:
        other.status.assert_consumed().initialize_or_restore()
        assert other.state() == saved


def test_layers_are_saved_by_their_attributes(tmp_path):
    def build():
        dense = tf.layers.Dense(2, kernel_initializer=tf.ones_initializer())
        dense(tf.ones([1, 3]))
        return dense

    with tf.Graph().as_default(), tf.Session() as session:
        dense = build()
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(dense.kernel, dense.kernel * 5))
        path = tf.train.Checkpoint(dense=dense).write(str(tmp_path / "exactly"))
    assert path == str(tmp_path / "exactly")
    assert "dense/kernel/.ATTRIBUTES/VARIABLE_VALUE" in dict(tf.train.list_variables(path))
    with tf.Graph().as_default(), tf.Session() as session:
        dense = build()
        tf.train.Checkpoint(dense=dense).read(path).assert_consumed().run_restore_ops()
        assert session.run(dense.kernel).tolist() == [[5.0, 5.0]] * 3


def test_an_object_that_two_have_is_saved_once():
    with tf.Graph().as_default():
        v = tf.Variable(1.0)
        graph = ObjectGraph.below(tf.train.Checkpoint(a=[v], b=v))
        assert list(graph.variables) == ["b/.ATTRIBUTES/VARIABLE_VALUE"]


def test_what_cannot_be_saved_is_refused():
    with pytest.raises(ValueError, match="was expecting x to be a trackable object"):
        tf.train.Checkpoint(x=3)


@pytest.fixture
def _eager():
    kept, default_graphs.implicit = default_graphs.implicit, None
    tf.enable_eager_execution()
    try:
        yield
    finally:
        tf.disable_eager_execution()
        default_graphs.implicit = kept


@pytest.mark.usefixtures("_eager")
def test_values_come_back_at_once_in_eager_execution(tmp_path):
    def step(net, optimizer):
        with tf.GradientTape() as tape:
            loss = net.loss()
        variables = [net.w, net.parts[0]]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    net, optimizer = Net(), tf.train.AdamOptimizer(0.1)
    for _ in range(3):
        step(net, optimizer)
    path = tf.train.Checkpoint(net=net, optimizer=optimizer).save(tmp_path / "ckpt")
    step(net, optimizer)

    other, fresh = Net(), tf.train.AdamOptimizer(0.1)
    checkpoint = tf.train.Checkpoint(net=other)
    checkpoint.restore(path)
    checkpoint.optimizer = fresh  # restored when it is set, its slots when they are created
    step(other, fresh)
    np.testing.assert_allclose(other.w.numpy(), net.w.numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        fresh.get_slot(other.w, "m").numpy(), optimizer.get_slot(net.w, "m").numpy(), rtol=1e-6
    )


@pytest.mark.usefixtures("_eager")
def test_variables_made_after_restore_get_their_values_in_eager_execution(tmp_path):
    holder = tf.Module()
    holder.v = tf.Variable(7.0)
    path = tf.train.Checkpoint(holder=holder).save(tmp_path / "ckpt")
    other = tf.Module()
    tf.train.Checkpoint(holder=other).restore(path)
    other.v = tf.Variable(0.0)
    assert other.v.numpy() == 7.0


class TestManager:
    @pytest.fixture
    def program(self):
        program = Program().trained(1)
        with program.graph.as_default(), program.session:
            yield program

    def test_keeps_the_newest(self, program, tmp_path):
        manager = tf.train.CheckpointManager(program.checkpoint, tmp_path / "new", 2)
        paths = [manager.save() for _ in range(3)]
        assert [Path(path).name for path in paths] == ["ckpt-1", "ckpt-2", "ckpt-3"]
        assert manager.checkpoints == paths[1:]
        assert manager.latest_checkpoint == paths[-1]
        there = sorted({path.name.split(".")[0] for path in (tmp_path / "new").iterdir()})
        assert there == ["checkpoint", "ckpt-2", "ckpt-3"]
        assert tf.train.latest_checkpoint(str(tmp_path / "new")) == paths[-1]

    def test_another_manager_goes_on(self, program, tmp_path):
        first = tf.train.CheckpointManager(program.checkpoint, tmp_path, 2)
        first.save()
        second = tf.train.CheckpointManager(program.checkpoint, tmp_path, 1)
        assert second.latest_checkpoint == first.latest_checkpoint
        path = second.save(checkpoint_number=program.step)
        assert second.checkpoints == [path]
        assert path.endswith("ckpt-1")
        assert tf.train.CheckpointManager(program.checkpoint, tmp_path, 1).checkpoints == [path]

    def test_keeps_one_in_some_hours(self, program, tmp_path):
        manager = tf.train.CheckpointManager(program.checkpoint, tmp_path, 1, 0.0)
        paths = [manager.save() for _ in range(3)]
        assert manager.checkpoints == paths[2:]
        assert all(Path(f"{path}.index").exists() for path in paths)

    def test_saves_at_intervals(self, program, tmp_path):
        manager = tf.train.CheckpointManager(
            program.checkpoint, tmp_path, 3, step_counter=program.step, checkpoint_interval=2
        )
        found = []
        for _ in range(4):
            found.append(manager.save())
            program.session.run(program.train)
        assert [path is not None for path in found] == [True, False, True, False]
        assert manager.save(check_interval=False) is not None

    def test_restores_or_initializes(self, program, tmp_path):
        called = []
        manager = tf.train.CheckpointManager(
            program.checkpoint, tmp_path, 3, init_fn=lambda: called.append(1)
        )
        assert manager.restore_or_initialize() is None
        assert called == [1]
        saved, path = program.state(), manager.save()
        program.session.run(program.train)
        assert manager.restore_or_initialize() == path
        assert program.state() == saved

    def test_arguments_are_checked(self, program, tmp_path):
        with pytest.raises(ValueError, match="Expected a positive integer or `None`"):
            tf.train.CheckpointManager(program.checkpoint, tmp_path, 0)
        with pytest.raises(ValueError, match="`step_counter` should be passed"):
            tf.train.CheckpointManager(program.checkpoint, tmp_path, 1, checkpoint_interval=1)
