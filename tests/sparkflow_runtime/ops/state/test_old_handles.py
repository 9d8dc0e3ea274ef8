"""The ops of readers and tables with the handles of TensorFlow's first releases.

WholeFileReader, IdentityReader, TextLineReader, TFRecordReader, FixedLengthRecordReader,
ReaderRead, ReaderReadUpTo, ReaderNumRecordsProduced, ReaderNumWorkUnitsCompleted,
ReaderSerializeState, ReaderRestoreState, ReaderReset; HashTable, MutableHashTable,
MutableHashTableOfTensors, MutableDenseHashTable, LookupTableFind, LookupTableInsert,
LookupTableImport, LookupTableExport, LookupTableSize, InitializeTable,
InitializeTableFromTextFile.
"""

import sparkflow as tf
import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.state import old_handles

OLD = [op for op in registry.all_ops() if type(op).__module__ == old_handles.__name__]


def test_each_differs_from_the_new_form_in_its_handle_only():
    assert len(OLD) == 23
    for op in OLD:
        newer = registry.lookup(f"{op.op_type}V2")
        later = {"encoding"} if op.op_type == "FixedLengthRecordReader" else set()
        assert op.attrs == {key: attr for key, attr in newer.attrs.items() if key not in later}
        inputs = newer.inputs
        if op.op_type == "MutableDenseHashTable":
            inputs = inputs.replace(", deleted_key: key_dtype", "")
        assert op.inputs.replace("Ref(string)", "resource") == inputs
        assert op.outputs.replace("Ref(string)", "resource") == newer.outputs
        assert op.inputs + op.outputs != newer.inputs + newer.outputs


def apply(op_type, *inputs, **attrs):
    return tf.get_default_graph().apply(op_type, inputs, attrs)


def test_a_table_is_filled_and_read():
    with tf.Graph().as_default(), tf.Session() as session:
        table = apply("HashTable", key_dtype=tf.string, value_dtype=tf.int64)
        fill = apply("InitializeTable", table, ["a", "b"], tf.constant([1, 2], tf.int64))
        found = apply("LookupTableFind", table, ["b", "x"], tf.constant(-1, tf.int64))
        session.run(fill)
        assert session.run(found).tolist() == [2, -1]
        assert session.run(apply("LookupTableSize", table)) == 2


def test_lines_of_a_file_are_read(tmp_path):
    path = tmp_path / "lines"
    path.write_text("one\ntwo\n")
    with tf.Graph().as_default(), tf.Session() as session:
        queue = apply("FIFOQueue", component_types=[tf.string])
        put = apply("QueueEnqueue", queue, [str(path)])
        key, value = apply("ReaderRead", apply("TextLineReader"), queue)
        session.run(put)
        assert session.run([key, value]) == [f"{path}:1".encode(), b"one"]
        assert session.run(value) == b"two"
