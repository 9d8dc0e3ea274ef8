"""Variables and tables on parameter servers."""

import sparkflow as tf
from sparkflow.spark.graphs.devices import variables_on_ps


def test_each_goes_to_the_server_with_the_fewest_bytes() -> None:
    with tf.Graph().as_default(), tf.device(variables_on_ps(2)):
        large = tf.get_variable("large", [100])
        small = [tf.get_variable(f"small{n}", [10], use_resource=n > 1) for n in range(4)]
        table = tf.contrib.lookup.MutableHashTable(tf.int64, tf.int64, -1)
        sum_of = tf.add_n(small)
    assert large.device == "/job:ps/task:0"
    assert {each.device for each in small} == {"/job:ps/task:1"}
    assert table.resource_handle.device == "/job:ps/task:1"
    assert sum_of.device == "/job:worker"
