"""TensorArrays whose elements are written in part, and TensorArrays in the state of loops.

TensorFlow's Keras 3 has no `RNNCell`: generate with `tf_keras` and TF_USE_LEGACY_KERAS=1.
"""

from random import Random

PREAMBLE = """
x = tf.constant(np.arange(24, dtype=np.float32))
v = tf.constant(np.float32([[0.5, -1.0], [2.0, 0.25], [1.0, 3.0]]))

def array(size, **options):
    return tf.TensorArray(tf.float32, size, **options)
"""
WITH_RESPECT_TO = ("x", "v")


def _case(random: Random) -> str:
    size = random.randint(1, 4)
    shape = random.choice([[], [2], [2, 1], [0, 2], [3]])
    count = 1
    for each in shape:
        count *= each
    known = random.choice([None, shape, [None, *shape[1:]] if shape else None])
    options = "" if known is None else f", element_shape=tf.TensorShape({known})"
    lines = [f"ta = array({size}{options})"]
    for place in random.sample(range(size), random.randint(0, size)):
        start = random.randint(0, 8)
        lines.append(f"ta = ta.write({place}, tf.reshape(x[{start}:{start + count}], {shape}))")
    place = random.randint(0, size - 1)
    reads = [
        "ta.stack()",
        "ta.concat()",
        "ta.concat()",
        f"ta.read({place})",
        f"ta.gather([{place}])",
    ]
    # TensorFlow fails at joining scalars and at the gradient of joining what has no rows.
    lines.append(
        random.choice(
            reads if count and shape and known is not None else ["ta.stack()", *reads[3:]]
        )
    )
    return "\n".join(lines)


_RANDOM = Random(9)
_LOOPS = """
state = (tf.constant(0), array(3), array(3, element_shape=[2]))
after = tf.while_loop(lambda i, *_: i < 3, lambda i, a, b: (i + 1, a.write(i, v[i] * x[i]), b.write(2 - i, v[i])), state)
[after[1].stack(), after[2].concat()]
---
state = [tf.constant(0), {"a": array(2)}]
_, after = tf.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, {"a": s["a"].write(i, v[i])}), state)
after["a"].stack()
---
def loop_fn(time, output, state, loop_state):
    seen = array(4, clear_after_read=False) if output is None else loop_state.write(time - 1, output * 2.0)
    new = v if output is None else state + 1.0
    return time >= 3, v * tf.cast(time + 1, tf.float32), new, output, seen
class Cell(tf.nn.rnn_cell.RNNCell):
    state_size = output_size = 2
    def __call__(self, inputs, state, scope=None):
        return inputs * state, state + inputs
outputs, state, seen = tf.nn.raw_rnn(Cell(), loop_fn)
[outputs.stack(), state, seen.stack()]
---
class Cell(tf.nn.rnn_cell.RNNCell):
    state_size, output_size = (2, tf.TensorShape([])), 2
    def __call__(self, inputs, state, scope=None):
        kept, seen = state
        return inputs * kept, (kept + inputs, seen.write(seen.size(), kept))
seen = array(0, dynamic_size=True, element_shape=[3, 2])
outputs, (kept, seen) = tf.nn.dynamic_rnn(Cell(), tf.reshape(x[:12], [3, 2, 2]), initial_state=(v, seen), sequence_length=[2, 1, 2])
[outputs, kept, seen.stack()]
---
first = tf.scan(lambda s, r: (s[0] + r, s[1] * r), v, initializer=(tf.zeros([2]), tf.ones([2])))
first
---
tf.map_fn(lambda r: (array(2).unstack(r).read(1), r * 2.0), v, dtype=(tf.float32, tf.float32))
---
tf.cond(x[1] > 0.0, lambda: array(2).unstack(v[:2]), lambda: array(2).unstack(v[1:])).stack()
---
a = array(3, clear_after_read=False).unstack(v)
after = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + a.read(i) * a.read(2 - i)), (0, tf.zeros([2])))
after[1]
"""
EXPRESSIONS = "\n---\n" + "\n---\n".join(_case(_RANDOM) for _ in range(60)) + "\n---" + _LOOPS
