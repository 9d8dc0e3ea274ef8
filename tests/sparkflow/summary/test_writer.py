import threading
import warnings

import pytest

import sparkflow as tf
from sparkflow.summary.queue_writer import QueuedEventWriter


def scalar(tag, value):
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value)])


def events_in(folder):
    files = sorted(folder.glob("*tfevents*"))
    return [event for file in files for event in tf.train.summary_iterator(str(file))]


def test_what_was_added_is_in_the_file_after_flush(tmp_path):
    writer = tf.summary.FileWriter(str(tmp_path), filename_suffix=".mine")
    writer.add_summary(scalar("a", 1.0).SerializeToString(), 3)
    writer.add_summary(scalar("a", 2.0), global_step=4)
    writer.flush()
    first, *events = events_in(tmp_path)
    assert first.file_version == "brain.Event:2"
    assert [(e.step, e.summary.value[0].simple_value) for e in events] == [(3, 1.0), (4, 2.0)]
    assert all(event.wall_time > 1e9 for event in events)
    assert writer.get_logdir() == str(tmp_path)
    assert next(tmp_path.iterdir()).name.endswith(".mine")
    writer.close()


def test_graph_is_written_with_its_shapes(tmp_path):
    with tf.Graph().as_default() as graph:
        tf.constant([1.0, 2.0], name="c")
    with tf.summary.FileWriter(tmp_path, graph):
        pass
    _, first, second = events_in(tmp_path)
    (node,) = tf.GraphDef.FromString(first.graph_def).node
    assert node.attr["_output_shapes"].list.shape[0].dim[0].size == 2
    assert second.WhichOneof("what") == "meta_graph_def"


def test_old_way_of_giving_the_graph(tmp_path):
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="c")
    writer = tf.train.SummaryWriter(str(tmp_path), graph_def=graph.as_graph_def())
    writer.close()
    assert tf.GraphDef.FromString(events_in(tmp_path)[1].graph_def).node[0].name == "c"


def test_what_is_no_graph_is_refused(tmp_path):
    writer = tf.summary.FileWriter(tmp_path)
    with pytest.raises(TypeError, match="must be an instance of `Graph`"):
        writer.add_graph("graph")
    with pytest.raises(ValueError, match="not both"):
        writer.add_graph(tf.Graph(), graph_def=tf.GraphDef())
    with pytest.raises(TypeError, match="must be type MetaGraphDef"):
        writer.add_meta_graph(tf.GraphDef())
    writer.close()


def test_metadata_of_a_tag_are_written_once(tmp_path):
    metadata = tf.SummaryMetadata(display_name="shown")
    summary = tf.Summary(value=[tf.Summary.Value(tag="t", simple_value=1, metadata=metadata)])
    with tf.summary.FileWriter(tmp_path) as writer:
        writer.add_summary(summary, 1)
        writer.add_summary(summary, 2)
    shown = [event.summary.value[0].metadata.display_name for event in events_in(tmp_path)[1:]]
    assert shown == ["shown", ""]
    assert summary.value[0].HasField("metadata")


def test_run_metadata_are_tagged_once(tmp_path):
    with tf.summary.FileWriter(tmp_path) as writer:
        writer.add_run_metadata(tf.RunMetadata(), "step 1", 1)
        with pytest.raises(ValueError, match="already used"):
            writer.add_run_metadata(tf.RunMetadata(), "step 1", 2)
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 1)
    _, run, log = events_in(tmp_path)
    assert run.tagged_run_metadata.tag == "step 1"
    assert log.session_log.status == tf.SessionLog.START


def test_closed_writer_warns_and_goes_on_when_reopened(tmp_path):
    writer = tf.summary.FileWriter(tmp_path)
    writer.add_summary(scalar("a", 1.0), 1)
    writer.close()
    writer.close()
    with pytest.warns(UserWarning, match="Attempting to use a closed FileWriter"):
        writer.add_summary(scalar("a", 2.0), 2)
    with pytest.warns(UserWarning, match="closed FileWriter"):
        writer.flush()
    writer.reopen()
    writer.reopen()
    writer.add_summary(scalar("a", 3.0), 3)
    writer.close()
    assert [e.step for e in events_in(tmp_path) if e.summary.value] == [1, 3]
    assert len(list(tmp_path.iterdir())) == 2


def test_threads_end_with_close_and_when_the_writer_is_forgotten(tmp_path):
    before = threading.active_count()
    writer = tf.summary.FileWriter(tmp_path)
    writer.add_summary(scalar("a", 1.0), 1)
    assert threading.active_count() == before + 1
    del writer
    assert threading.active_count() == before
    assert len(events_in(tmp_path)) == 2


def test_many_threads_and_a_short_queue(tmp_path):
    writer = tf.summary.FileWriter(tmp_path, max_queue=1, flush_secs=1)

    def add(first):
        for step in range(first, first + 50):
            writer.add_summary(scalar("a", step), step)

    threads = [threading.Thread(target=add, args=(n * 50,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(event.step for event in events_in(tmp_path)[1:]) == list(range(200))


def test_failure_to_write_reaches_the_caller(tmp_path):
    writer = QueuedEventWriter(str(tmp_path), 10, 120, "")

    def fail(_):
        raise OSError("disk full")

    writer._file.add_event = fail
    writer.add(tf.Event())
    with pytest.raises(OSError, match="disk full"):
        writer.flush()
    writer.close()


def test_cache_has_one_writer_per_directory(tmp_path):
    with tf.Graph().as_default():
        first = tf.summary.FileWriterCache.get(str(tmp_path / "a"))
        assert tf.summary.FileWriterCache.get(str(tmp_path / "a")) is first
        assert tf.summary.FileWriterCache.get(str(tmp_path / "b")) is not first
    tf.summary.FileWriterCache.clear()
    with warnings.catch_warnings(), pytest.warns(UserWarning, match="closed"):
        first.flush()
    with tf.Graph().as_default():
        assert tf.summary.FileWriterCache.get(str(tmp_path / "a")) is not first
    tf.summary.FileWriterCache.clear()


def test_errors_about_files_are_those_of_tensorflow(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.FailedPreconditionError, match="is not a directory"):
        tf.summary.FileWriter(str(tmp_path / "file"))
    with pytest.raises(tf.errors.OpError, match="No event file can be made in /proc/none"):
        tf.summary.FileWriter("/proc/none")
    with pytest.raises(tf.errors.NotFoundError, match="missing"):
        list(tf.train.summary_iterator(str(tmp_path / "missing")))
