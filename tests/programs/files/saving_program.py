"""Saving over existing files, for `test_deaths.py`: every format that sparkflow writes and reads.

The old state is 1, the new one 2.
"""

import logging
from pathlib import Path

import numpy as np

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.spark.control.checkpoints.snapshot import Position, Snapshot
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.storage.checkpoint_files import PathFiles
from sparkflow.spark.streaming import StreamState
from sparkflow_runtime.checkpoint.bundle_reader import BundleReader
from sparkflow_runtime.checkpoint.bundle_writer import Saved, merge_bundles, write_bundle
from sparkflow_runtime.checkpoint.tensors import read_tensors, write_tensors
from sparkflow_runtime.events.event_file import EventFileWriter, read_scalars

logging.disable()


class Case:
    """A format that saves numbers."""

    def save(self, folder: Path, number: int) -> None:
        """Writes a state with this number."""
        raise NotImplementedError

    def load(self, folder: Path) -> int:
        """Returns the number of the existing state."""
        raise NotImplementedError

    def before(self, folder: Path) -> None:
        """Creates the old state."""
        self.save(folder, 1)

    def change(self, folder: Path) -> None:
        """Creates the new one."""
        self.save(folder, 2)

    def state(self, folder: Path) -> str:
        """Returns what is there, or how it is rejected."""
        return str(self.load(folder))


class SaverOverTheSameName(Case):
    """`Saver.save` under one name, with graph and state file; read through the state file."""

    sharded = False

    def save(self, folder, number):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.get_variable("v", initializer=[float(number)] * 3)
            tf.get_variable("w", initializer=[b"text"])
            session.run(tf.global_variables_initializer())
            tf.train.Saver(sharded=self.sharded).save(session, str(folder / "model"))

    def load(self, folder):
        latest = tf.train.latest_checkpoint(str(folder))
        with tf.Graph().as_default(), tf.Session() as session:
            saver = tf.train.import_meta_graph(f"{latest}.meta")
            saver.restore(session, latest)
            (value,) = set(session.run("v:0"))
        return int(value)


class ShardedSaver(SaverOverTheSameName):
    """The same in shards."""

    sharded = True


class SaverThatKeepsOne(SaverOverTheSameName):
    """Each checkpoint has its own name; the older one is deleted."""

    def save(self, folder, number):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.get_variable("v", initializer=[float(number)] * 3)
            session.run(tf.global_variables_initializer())
            saver = tf.train.Saver(max_to_keep=1)
            if state := tf.train.get_checkpoint_state(str(folder)):
                saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
            saver.save(session, str(folder / "model"), number)


class Shards(Case):
    """Two shards, merged over two others."""

    def save(self, folder, number):
        parts = [str(folder / f"model_temp_{index}" / "part") for index in range(2)]
        for index, part in enumerate(parts):
            array = np.full(5, number, np.float32)
            write_bundle(part, [Saved(f"v{index}", tf.float32, array)])
        merge_bundles(parts, str(folder / "model"), True)

    def load(self, folder):
        reader = BundleReader(str(folder / "model"))
        (value,) = {*reader.read("v0"), *reader.read("v1")}
        return int(value)


class TrainerCheckpoints(Case):
    """The store of `SparkTrainer`, which keeps one checkpoint."""

    def save(self, folder, number):
        values = {"v": np.full(1000, number, np.float32)}
        snapshot = Snapshot(number, Position((1,), (1,), {}), values, {}, (), {})
        CheckpointStore(str(folder), 1, PathFiles()).write(snapshot)

    def load(self, folder):
        found = CheckpointStore(str(folder), 1, PathFiles()).latest()
        (value,) = set(found.snapshot.shared["v"])
        return int(value)


class Model(Case):
    """A model saved over another."""

    def save(self, folder, number):
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [None, 1], name="x")
            tf.multiply(x, tf.get_variable("v", [1]), name=f"y{number}")
        output = Output("prediction", f"y{number}:0", "float32", (1,))
        signature = Signature.of_features("x:0", 1, (output,))
        values = {"v": np.full(1, number, np.float32)}
        InferenceModel.build(graph.as_graph_def(), values, signature).save(folder)

    def load(self, folder):
        return int(InferenceModel.load(folder).predict([[1.0]])["prediction"][0, 0])


class ModelOfBefore(Model):
    """A model saved over one that an earlier version wrote."""

    def before(self, folder):
        from safetensors.numpy import save_file

        from sparkflow_runtime.checkpoint.sealed import open_json, seal_json

        self.save(folder, 1)
        path = folder / "model.json"
        members, _ = open_json(path.read_bytes(), "")
        del members["files"]
        path.write_bytes(seal_json(members | {"format_version": 2}).split(b"\n", 1)[1])
        path.write_bytes(b"{" + path.read_bytes())
        save_file({"v": np.ones(1, np.float32)}, folder / "variables.safetensors")


class MetaGraph(Case):
    """`export_meta_graph` over a file."""

    as_text = False

    def save(self, folder, number):
        with tf.Graph().as_default():
            tf.constant(number, name="n")
            tf.train.export_meta_graph(str(folder / "a.meta"), as_text=self.as_text)

    def load(self, folder):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.import_meta_graph(str(folder / "a.meta"))
            return session.run("n:0")


class TextMetaGraph(MetaGraph):
    """As text."""

    as_text = True


class SavedModel(Case):
    """A saved model, which is never overwritten: it does not exist, or is complete."""

    def before(self, folder):
        (folder / "words").write_text("a\nb\n")

    def save(self, folder, number):
        exported = folder / "exported"
        if exported.exists():
            if (exported / "saved_model.pb").exists():
                return
            tf.gfile.DeleteRecursively(str(exported))  # as TensorFlow requires of its users
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [None], name="x")
            y = x * tf.get_variable("v", initializer=float(number))
            words = tf.constant(str(folder / "words"))
            tf.add_to_collection("asset_filepaths", words)
            session.run(tf.global_variables_initializer())
            tf.saved_model.simple_save(session, str(exported), {"x": x}, {"y": y})

    def load(self, folder):
        with tf.Graph().as_default(), tf.Session() as session:
            try:
                tf.saved_model.loader.load(session, ["serve"], str(folder / "exported"))
            except OSError:
                return 1  # it does not exist
            return int(session.run("v:0"))


class Stream(Case):
    """The state of a stream."""

    def save(self, folder, number):
        PathFiles().write_whole(f"{folder}/stream.json", StreamState(number).to_json())

    def load(self, folder):
        return StreamState.from_json((folder / "stream.json").read_bytes(), "").batch_id


class Tensors(Case):
    """One file of tensors."""

    def save(self, folder, number):
        write_tensors(folder / "t.safetensors", {"v": np.full(100, number)})

    def load(self, folder):
        (value,) = set(read_tensors(folder / "t.safetensors")["v"])
        return int(value)


class WrittenGraph(Case):
    """`write_graph` over a file."""

    def save(self, folder, number):
        with tf.Graph().as_default() as graph:
            tf.constant(number, name="n")
            tf.train.write_graph(graph, str(folder), "g.pb", as_text=False)

    def load(self, folder):
        message = tf.GraphDef.FromString((folder / "g.pb").read_bytes())
        with tf.Graph().as_default(), tf.Session() as session:
            tf.import_graph_def(message, name="")
            return session.run("n:0")


class EventFiles(Case):
    """An event file in the folder of another run."""

    def save(self, folder, number):
        with EventFileWriter(folder / f"run{number}" / "train") as writer:
            writer.add_scalars(1, 1.0, {"v": float(number)})

    def load(self, folder):
        found = [read_scalars(path) for path in folder.rglob("events.out.tfevents.*")]
        return int(max(value for each in found for _, value in each["v"]))


CASES = {
    each.__name__: each()
    for each in (
        SaverOverTheSameName,
        ShardedSaver,
        SaverThatKeepsOne,
        Shards,
        TrainerCheckpoints,
        Model,
        ModelOfBefore,
        MetaGraph,
        TextMetaGraph,
        SavedModel,
        Stream,
        Tensors,
        WrittenGraph,
        EventFiles,
    )
}
