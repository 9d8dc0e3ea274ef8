"""Summaries: tags, histograms, scaled images, sound. Messages are taken apart and compared."""

PREAMBLE = """
import io
from PIL import Image
r = np.random.RandomState(0)
def run(summary):
    with tf.Session() as session:
        return tf.Summary.FromString(session.run(summary)).value
def tags(summary):
    return " ".join(value.tag for value in run(summary))
def histo(values):
    h = run(tf.summary.histogram("h", values))[0].histo
    return [
        np.array([h.min, h.max, h.num, h.sum, h.sum_squares]),
        np.array(h.bucket_limit)[:-1],
        np.array(h.bucket),
    ]
def sounds(*args, **kwargs):
    values = run(tf.summary.audio("a", *args, **kwargs))
    return [
        [v.tag, v.audio.content_type, np.frombuffer(v.audio.encoded_audio_string, np.uint8)]
        for v in values
    ]
def sizes(*args, **kwargs):
    values = run(tf.summary.image("i", *args, **kwargs))
    return [[v.tag, v.image.height, v.image.width, v.image.colorspace] for v in values]
def pixels(*args, **kwargs):
    values = run(tf.summary.image("i", *args, **kwargs))
    files = [io.BytesIO(value.image.encoded_image_string) for value in values]
    return [np.array(Image.open(file)) for file in files]
"""
EXPRESSIONS = """
tags(tf.summary.scalar("loss", 1.0))
tags(tf.summary.scalar("my loss (1)", 1.0))
tags(tf.summary.scalar("/loss", 1.0))
tags(tf.summary.scalar("loss", 1.0, family="fam"))
tags(tf.summary.scalar("loss", 1.0, family="my fam"))
tf.summary.scalar("a", 1.0).op.name
tf.summary.scalar("a", 1.0, family="f").op.name
[float(run(tf.summary.scalar("a", value))[0].simple_value) for value in (1, 2.5, True and 3)]
float(run(tf.summary.scalar("a", tf.constant(7, tf.uint8)))[0].simple_value)
float(run(tf.summary.scalar("a", tf.constant(0.1, tf.float64)))[0].simple_value)
float(run(tf.summary.scalar("a", tf.constant(float("nan"))))[0].simple_value)
run(tf.summary.scalar("a", [1.0, 2.0]))
tf.summary.scalar("a", "text")
tf.summary.scalar("a", True)
tf.summary.scalar("a", 1.0).op.type
tf.summary.histogram("a", 1.0).op.type
tf.summary.image("a", np.ones((1, 2, 2, 1), np.float32)).op.type
tf.summary.audio("a", [[0.0]], 8000.0).op.type
tf.summary.text("a", tf.constant("x")).op.type
tf.summary.merge([tf.summary.scalar("a", 1.0)]).op.type
tf.summary.merge([tf.summary.scalar("a", 1.0)], name="m").op.name
histo(r.randn(1000).astype(np.float32))
histo(r.randn(50) * 1e-3)
histo(np.arange(20))
histo(np.arange(20, dtype=np.uint8))
histo(np.zeros((2, 3), np.float32))
histo(np.array(7.0))
histo(np.array([-1e25, 1e30]))
histo(r.randn(40).astype(np.float16))
tf.summary.histogram("h", np.array(["a"]))
tf.summary.histogram("h", np.array([True]))
run(tf.summary.histogram("h", [1.0, float("nan")]))
run(tf.summary.histogram("h", [1.0, float("inf")]))
sounds(r.rand(2, 30).astype(np.float32) * 2 - 1, 44100.0)
sounds(r.rand(5, 10, 2).astype(np.float32) * 3 - 1.5, 8000.5)
sounds(r.rand(5, 10, 2).astype(np.float32), 8000, max_outputs=1)
sounds(np.zeros((1, 0), np.float32), 8000.0)
run(tf.summary.audio("a", [0.0], 8000.0))
run(tf.summary.audio("a", [[0.0]], -1.0))
sizes(r.rand(2, 3, 4, 3).astype(np.float32))
sizes(r.rand(4, 3, 4, 1).astype(np.float32), max_outputs=1)
sizes(r.rand(4, 3, 4, 4), max_outputs=2)
pixels(r.rand(2, 3, 4, 3).astype(np.float32))
pixels(r.randn(2, 3, 4, 1).astype(np.float32))
pixels(r.randn(1, 3, 4, 4))
pixels(r.rand(1, 3, 4, 3).astype(np.float32) * 1e-7)
pixels(r.randn(1, 2, 2, 3).astype(np.float16) * 10)
pixels(r.randint(0, 255, (1, 2, 3, 3)).astype(np.uint8))
pixels(np.array([[[[np.nan, 1, 2], [3, np.inf, 1]], [[1, 2, 3], [4, 5, -6]]]], np.float32))
pixels(np.full((1, 2, 2, 1), np.nan, np.float32))
run(tf.summary.image("i", np.zeros((1, 2, 2, 2), np.float32)))
run(tf.summary.image("i", np.zeros((2, 2, 1), np.float32)))
run(tf.summary.image("i", np.zeros((1, 0, 2, 1), np.float32)))
tf.summary.image("i", np.zeros((1, 2, 2, 1), np.float32), max_outputs=0)
run(tf.summary.text("t", tf.constant(["x", "y"])))[0].metadata.plugin_data.plugin_name
list(run(tf.summary.text("t", tf.constant(["x", "y"])))[0].tensor.string_val)
tf.summary.text("t", tf.constant(1.0))
run(tf.summary.tensor_summary("t", [1.0], display_name="d"))[0].metadata.display_name
run(tf.summary.tensor_summary("t", [1.0]))[0].tensor.tensor_content
run(tf.summary.tensor_summary("t", tf.constant([1, 2]), family="f"))[0].tag
tf.summary.merge([])
tf.summary.merge_all()
tf.summary.merge_all(key="nothing")
---
tf.summary.scalar("a", 1.0)
tf.summary.histogram("b", [1.0])
tags(tf.summary.merge_all())
---
tf.summary.scalar("a", 1.0)
tf.summary.scalar("b", 1.0)
tags(tf.summary.merge_all(scope="b"))
---
with tf.name_scope("outer"):
    s = tf.summary.scalar("loss", 1.0, family="fam")
[s.op.name, tags(s)]
---
tf.summary.scalar("a", 1.0)
tags(tf.summary.scalar("a", 1.0))
---
tf.summary.scalar("a", 1.0, collections=["mine"])
[len(tf.get_collection("mine")), len(tf.get_collection(tf.GraphKeys.SUMMARIES))]
"""
