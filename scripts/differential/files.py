"""Files and readers in graphs. The files are made in a folder of the case's own.

Not here: MkDir of a folder that exists, which TF 1.15 refuses and 2.21 does not.
"""

PREAMBLE = '''
import tempfile, os, struct, zlib
folder = tempfile.mkdtemp()
def made(name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(data)
    return path
lines = made("lines.txt", b"head\\none\\r\\n\\nthree")
more = made("more.txt", b"head\\nfour\\n")
pieces = made("pieces", b"H" + bytes(range(10)) + b"FF")
records = os.path.join(folder, "records")
with tf.python_io.TFRecordWriter(records) as w:
    for r in (b"r0", b"", b"record two"):
        w.write(r)
zipped = os.path.join(folder, "zipped")
with tf.python_io.TFRecordWriter(zipped, tf.python_io.TFRecordOptions("GZIP")) as w:
    w.write(b"z")
def values(reader, names, count=3, up_to=None):
    """The values of `count` reads, one after the other."""
    queue = tf.FIFOQueue(10, tf.string, shapes=[[]])
    found, last = [], queue.enqueue_many([names])
    with tf.control_dependencies([last]):
        last = queue.close()
    for _ in range(count):
        with tf.control_dependencies([last]):
            pair = reader.read(queue) if up_to is None else reader.read_up_to(queue, up_to)
        last = pair[1]
        found.append(pair[1])
        found.append(tf.strings.regex_replace(pair[0], "^.*/", ""))
    with tf.control_dependencies([last]):
        found.append(reader.num_records_produced())
        found.append(reader.num_work_units_completed())
    return found
'''
WITH_RESPECT_TO = ()
EXPRESSIONS = r"""
tf.read_file(lines)
tf.read_file(folder + "/none")
tf.read_file([lines])
tf.read_file(3)
tf.strings.regex_replace(tf.matching_files(folder + "/*.txt"), "^.*/", "")
tf.strings.regex_replace(tf.matching_files([folder + "/m*", folder + "/l*"]), "^.*/", "")
tf.strings.regex_replace(tf.matching_files(folder + "/[pr]*"), "^.*/", "")
tf.matching_files(folder + "/nothing*")
tf.write_file(folder + "/new", "text")
tf.write_file(folder + "/deep/er/new", "text")
tf.write_file([folder], "text")
values(tf.WholeFileReader(), [lines, more], 2)
values(tf.WholeFileReader(), [lines], 2)
values(tf.WholeFileReader(), [folder + "/none"], 1)
values(tf.TextLineReader(), [lines, more], 6)
values(tf.TextLineReader(skip_header_lines=1), [lines, more], 4)
values(tf.TextLineReader(), [lines], 2, up_to=2)
values(tf.TextLineReader(), [lines, more], 2, up_to=10)
values(tf.TextLineReader(), [lines], 1, up_to=0)
values(tf.FixedLengthRecordReader(5, header_bytes=1, footer_bytes=2), [pieces], 2)
values(tf.FixedLengthRecordReader(4, header_bytes=1), [pieces], 3)
values(tf.FixedLengthRecordReader(4, header_bytes=1, hop_bytes=2), [pieces], 3)
values(tf.FixedLengthRecordReader(2, hop_bytes=5), [pieces], 3)
values(tf.TFRecordReader(), [records], 3)
values(tf.TFRecordReader(), [records], 4)
values(tf.TFRecordReader(), [lines], 1)
values(tf.TFRecordReader(options=tf.python_io.TFRecordOptions("GZIP")), [zipped], 1)
values(tf.IdentityReader(), ["a", "b"], 2)
tf.IdentityReader().serialize_state() is None
tf.TextLineReader().supports_serialize, tf.IdentityReader().supports_serialize
list(tf.python_io.tf_record_iterator(records))
tf.gfile.GFile(lines).read()
tf.gfile.GFile(lines).readlines()
tf.gfile.GFile(lines, "rb").read(4)
tf.gfile.ListDirectory(folder + "/none")
tf.gfile.Exists(lines), tf.gfile.IsDirectory(lines), tf.gfile.Stat(lines).length
tf.gfile.Remove(folder + "/none")
tf.gfile.Copy(lines, more)
tf.gfile.Rename(lines, more)
tf.gfile.DeleteRecursively(folder + "/none")
sorted(os.path.basename(p) for p in tf.gfile.Glob(folder + "/*"))
[(len(d), sorted(f)) for _, d, f in tf.gfile.Walk(folder)]
tf.gfile.GFile(folder + "/none").read()
tf.gfile.GFile(lines, "q")
tf.gfile.GFile(lines, "r").write("x")
tf.gfile.GFile(folder + "/w", "w").read()
"""
