"""WholeFileReaderV2, IdentityReaderV2, TextLineReaderV2, TFRecordReaderV2,
FixedLengthRecordReaderV2 and what is done with them: ReaderReadV2, ReaderReadUpToV2,
ReaderNumRecordsProducedV2, ReaderNumWorkUnitsCompletedV2, ReaderSerializeStateV2,
ReaderRestoreStateV2, ReaderResetV2. Through the front end; TensorFlow's results are in the
differential family `files`.
"""

import pytest

import sparkflow as tf
from sparkflow_runtime.resources.reader import Reader


@pytest.fixture
def files(tmp_path):
    names = []
    for name, text in (("a", "1\n2\n"), ("b", "3")):
        path = tmp_path / name
        path.write_text(text)
        names.append(str(path))
    return names


@pytest.fixture
def queue_of():
    with tf.Graph().as_default(), tf.Session() as session:

        def made(names):
            queue = tf.FIFOQueue(10, tf.string, shapes=[[]])
            session.run(queue.enqueue_many([names]))
            session.run(queue.close())
            return session, queue

        yield made


def test_lines_of_several_files(queue_of, files):
    session, queue = queue_of(files)
    reader = tf.TextLineReader()
    key, value = reader.read(queue)
    assert key.op.type == "ReaderReadV2"
    read = [session.run([key, value]) for _ in range(3)]
    assert [v for _, v in read] == [b"1", b"2", b"3"]
    assert read[1][0].decode() == f"{files[0]}:2"
    assert session.run(reader.num_records_produced()) == 3
    assert session.run(reader.num_work_units_completed()) == 1
    with pytest.raises(tf.errors.OutOfRangeError, match="closed and has insufficient elements"):
        session.run(value)


def test_line_ends_of_windows_are_no_part_of_lines(queue_of, tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"a\r\nb\rc\r\r\nd\r")
    session, queue = queue_of([str(path)])
    _, value = tf.TextLineReader().read(queue)
    assert [session.run(value) for _ in range(3)] == [b"a", b"b\rc\r", b"d"]


def test_read_up_to_stays_in_one_file(queue_of, files):
    session, queue = queue_of(files)
    _, values = tf.TextLineReader().read_up_to(queue, 5)
    assert session.run(values).tolist() == [b"1", b"2"]
    assert session.run(values).tolist() == [b"3"]


def test_state_goes_from_one_reader_to_another(queue_of, files):
    session, queue = queue_of(files)
    one, two = tf.WholeFileReader(), tf.WholeFileReader()
    session.run(one.read(queue))
    state = session.run(one.serialize_state())
    session.run(two.restore_state(state))
    assert session.run(two.num_records_produced()) == 1
    session.run(two.reset())
    assert session.run(two.num_records_produced()) == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse state"):
        session.run(two.restore_state("junk"))


def test_a_reader_inside_a_file_has_no_state(queue_of, files):
    session, queue = queue_of(files)
    reader = tf.TextLineReader()
    session.run(reader.read(queue))
    with pytest.raises(tf.errors.UnimplementedError, match="between files"):
        session.run(reader.serialize_state())


def test_a_file_that_cannot_be_read_is_passed_over_next_time(queue_of, files, tmp_path):
    session, queue = queue_of([str(tmp_path / "none"), files[1]])
    _, value = tf.TextLineReader().read(queue)
    with pytest.raises(tf.errors.NotFoundError):
        session.run(value)
    assert session.run(value) == b"3"


def test_records_and_pieces(queue_of, tmp_path):
    path = str(tmp_path / "r")
    with tf.python_io.TFRecordWriter(path) as writer:
        writer.write(b"one")
        writer.write(b"two")
    session, queue = queue_of([path, "name", path])
    assert session.run(tf.TFRecordReader().read_up_to(queue, 9)[1]).tolist() == [b"one", b"two"]
    assert session.run(tf.IdentityReader().read(queue)[1]) == b"name"
    pieces = tf.FixedLengthRecordReader(4, header_bytes=12, footer_bytes=2)
    assert session.run(pieces.read(queue)[1])[:3] == b"one"


def test_dropping_a_reader_that_waits_does_not_wait(queue_of):
    reader = Reader("r", lambda name: iter([(name, name)]))
    reader._lock.acquire()  # as a thread that waits for its queue
    reader.close()
    assert reader._lock.locked()
