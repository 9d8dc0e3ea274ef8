"""Branches: results of several shapes and their gradients, lists of one, what is only waited for."""

PREAMBLE = '''
P = tf.placeholder(tf.bool, [], name="P")
q = tf.placeholder(tf.float32, [2], name="q")
k = tf.placeholder(tf.float32, [2], name="k")
up = q * 2.0
a = tf.get_variable("a", initializer=np.float32([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
b = tf.get_variable("b", initializer=np.float32([[0.5, -1.0]]))
c = tf.get_variable("c", initializer=np.float32([2.0, 3.0, 4.0]))

def both(value, variables):
    """For true and for false, the value and the gradients by variables."""
    flat = value if isinstance(value, (list, tuple)) else [value]
    loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in flat])
    slopes = tf.gradients(loss, variables)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        runs = [session.run([value, slopes], {P: flag}) for flag in (True, False)]
    return [isinstance(value, list), isinstance(value, tuple), runs]

def under(waits, make):
    """A branch that makes its result under control dependencies."""
    def branch():
        with tf.control_dependencies(waits()):
            return make()
    return branch

def unfed(value):
    """The value for true and for false, where q is not fed."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(value, {P: flag, k: [1.0, 2.0]}) for flag in (True, False)]
'''

_PAIRS = [
    ("a", "b"), ("a * 2.0", "b + 1.0"), ("[a]", "[b]"), ("[a * 2.0]", "b + 1.0"),
    ("a * 2.0", "[b + 1.0]"), ("[a * 2.0]", "(b + 1.0,)"), ("(a * 2.0,)", "(b + 1.0,)"),
    ("[[a * 2.0]]", "[[b + 1.0]]"), ("(a, c)", "(b, c * 2.0)"), ("c * 1.0", "b * 1.0"),
    ("tf.reduce_sum(a)", "c * 1.0"), ("a[1:]", "a[:, :1]"), ("a * 1.0", "tf.zeros([0, 2])"),
    ("tf.cond(P, lambda: a, lambda: c)", "b"), ("tf.boolean_mask(c, c > 2.0)", "c * 1.0"),
]  # fmt: skip
_WAITS = ["[q]", "[up]", "[q * 3.0]", "[up.op]", "[tf.assert_positive(q)]"]
_MADE = [
    ("k", "tf.constant([9.0, 9.0])"),
    ("[1.0, 2.0]", "[3.0, 4.0]"),
    ("np.float32([1.0, 2.0])", "k"),
    ("tf.constant(1.0)", "tf.constant(2.0)"),
    ("tf.reduce_sum(k)", "tf.constant(2.0)"),
    ("tf.no_op()", "tf.no_op()"),
]


def _cases() -> str:
    lines = []
    for first, second in _PAIRS:
        branches = f"lambda: {first}, lambda: {second}"
        lines.append(f"both(tf.cond(P, {branches}), [a, b, c])")
        lines.append(f"both(tf.cond(P, {branches}, strict=True), [a, b, c])")
    for waits in _WAITS:
        for first, second in _MADE:
            branch = f"under(lambda: {waits}, lambda: {first})"
            lines.append(f"unfed(tf.cond(P, {branch}, lambda: {second}))")
    lines += [
        "tf.cond(tf.constant(True), lambda: [], lambda: [])",
        "both(tf.case([(P, lambda: a), (c[0] > 9.0, lambda: c)], default=lambda: b), [a, b, c])",
        "both(tf.switch_case(tf.cast(P, tf.int32), [lambda: a, lambda: c]), [a, c])",
    ]
    blocks = ["\n".join(lines)]
    for waits in _WAITS:
        blocks.append(
            "def branch():\n"
            f"    with tf.control_dependencies({waits}):\n"
            "        tf.no_op()\n"
            "    return tf.constant(1.0)\n"
            "unfed(tf.cond(P, branch, lambda: tf.constant(2.0)))"
        )
        blocks.append(
            "def body(i):\n"
            f"    with tf.control_dependencies({waits}):\n"
            "        tf.no_op()\n"
            "    return i + 1\n"
            "unfed(tf.while_loop(lambda i: i < 3, body, [0]))"
        )
    blocks.append(
        "def branch():\n"
        "    tf.identity(up)\n"
        "    return tf.constant(1.0)\n"
        "unfed(tf.cond(P, branch, lambda: tf.constant(2.0)))"
    )
    return "\n---\n".join(blocks)


EXPRESSIONS = _cases()
