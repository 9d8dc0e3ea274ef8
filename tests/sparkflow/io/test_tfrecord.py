import pytest

import sparkflow as tf

RECORDS = [b"one", b"", bytes(10_000)]


@pytest.mark.parametrize("kind", [None, "GZIP", "ZLIB"])
def test_round_trip(tmp_path, kind):
    path = str(tmp_path / "a.tfrecord")
    options = tf.python_io.TFRecordOptions(kind)
    with tf.python_io.TFRecordWriter(path, options=options) as writer:
        for record in RECORDS:
            writer.write(record)
    assert list(tf.python_io.tf_record_iterator(path, options=options)) == RECORDS
    assert list(tf.io.tf_record_iterator(path, kind)) == RECORDS


def test_compression_by_number(tmp_path):
    kinds = tf.python_io.TFRecordCompressionType
    path = str(tmp_path / "a")
    options = tf.python_io.TFRecordOptions(kinds.GZIP)
    writer = tf.python_io.TFRecordWriter(path, options)
    writer.write("text")
    writer.flush()
    writer.close()
    writer.close()
    assert list(tf.python_io.tf_record_iterator(path, options)) == [b"text"]
    assert options.get_compression_type_string(options) == "GZIP"
    with pytest.raises(ValueError, match="Not a valid compression_type"):
        tf.python_io.TFRecordOptions("LZ4")


def test_errors(tmp_path):
    with pytest.raises(tf.errors.NotFoundError):
        next(tf.python_io.tf_record_iterator(str(tmp_path / "none")))
    with pytest.raises(tf.errors.NotFoundError):
        tf.python_io.TFRecordWriter(str(tmp_path / "no" / "folder"))
    path = tmp_path / "cut"
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        writer.write(b"one")
        writer.write(b"two")
    path.write_bytes(path.read_bytes()[:-3])
    records = tf.python_io.tf_record_iterator(str(path))
    assert next(records) == b"one"
    with pytest.raises(tf.errors.DataLossError):
        next(records)


@pytest.mark.parametrize("record", [3, None, [1, 2], 1.5, tf.train.Example()], ids=str)
def test_only_bytes_and_text_are_records(tmp_path, record):
    path = str(tmp_path / "a")
    with tf.python_io.TFRecordWriter(path) as writer:
        with pytest.raises(TypeError, match="takes a record of bytes or str, got"):
            writer.write(record)
        writer.write(bytearray(b"b"))
    assert list(tf.python_io.tf_record_iterator(path)) == [b"b"]
