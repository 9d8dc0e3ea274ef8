import pytest

import sparkflow as tf


@pytest.fixture
def prefix(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("old"):
            tf.get_variable("w", initializer=[[1.0, 2.0], [3.0, 4.0]])
            tf.get_variable("b", initializer=[5.0])
        tf.get_variable("step", initializer=7)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, f"{tmp_path}/x")
    with tf.Graph().as_default():
        yield f"{tmp_path}/x"


def values(variables):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(each).tolist() for each in variables]


def test_scopes_names_variables_and_parts(prefix):
    with tf.variable_scope("new"):
        w = tf.get_variable("w", [2, 2])
        b = tf.get_variable("b", [1])
    tf.train.init_from_checkpoint(prefix, {"old/": "new/"})
    named = tf.get_variable("named", [1])
    tf.train.init_from_checkpoint(prefix, {"old/b": "named"})
    given = tf.get_variable("given", [], tf.int32)
    tf.train.init_from_checkpoint(prefix, {"step": given})
    parts = tf.get_variable("parts", [2, 2], partitioner=tf.fixed_size_partitioner(2))
    tf.train.init_from_checkpoint(prefix, {"old/w": parts})
    assert values([w, b, named, given, *parts]) == [
        [[1, 2], [3, 4]],
        [5],
        [5],
        7,
        [[1, 2]],
        [[3, 4]],
    ]


def test_the_root_scope(prefix):
    with tf.variable_scope("old"):
        w = tf.get_variable("w", [2, 2])
    step = tf.get_variable("step", [], tf.int32)
    tf.train.init_from_checkpoint(prefix, {"/": "/"})
    assert values([w, step]) == [[[1, 2], [3, 4]], 7]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"no": "v"}, "Tensor no is not found in"),
        ({"old/w": "no"}, "Variable no does not exist in the graph"),
        ({"old/w": "v"}, r"Shape of variable v:0 \(\[3\]\) doesn't match"),
        ({"old": "s/"}, "should map to scope only"),
        ({"old/": "nothing/"}, "no variables in the scope"),
        ({"old/": "s/"}, r"Tensor old/u \(s/u in s/\) is not found"),
    ],
)
def test_what_does_not_fit(prefix, mapping, message):
    tf.get_variable("v", [3])
    with tf.variable_scope("s"):
        tf.get_variable("u", [3])
    with pytest.raises(ValueError, match=message):
        tf.train.init_from_checkpoint(prefix, mapping)


def test_warm_start(prefix):
    with tf.variable_scope("old"):
        w = tf.get_variable("w", [2, 2], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer(), trainable=False)
    other = tf.get_variable("other", [], tf.int32, initializer=tf.zeros_initializer())
    tf.train.warm_start(prefix, ".*w")
    assert values([w, b]) == [[[1, 2], [3, 4]], [0]]
    tf.train.warm_start(prefix, ["old/b", other], var_name_to_prev_var_name={"other": "step"})
    assert values([b, other]) == [[5], 7]
    tf.train.warm_start(prefix, None)
    with pytest.raises(ValueError, match="were not used: \\['no'\\]"):
        tf.train.warm_start(prefix, ".*w", var_name_to_prev_var_name={"no": "step"})
    with pytest.raises(TypeError, match="must be a `list` or `tuple`"):
        tf.train.warm_start(prefix, 3)
    info = tf.train.VocabInfo("new", 2, 0, "old")
    with pytest.raises(ValueError, match="takes no var_name_to_vocab_info"):
        tf.train.warm_start(prefix, ".*", {"old/w": info})
