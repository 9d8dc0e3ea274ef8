"""The nodes that read and set growing tables, run in a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.graphs.growing import (
    add_table_nodes,
    growing_tables,
    variables_of_tables,
)


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    with tf.Graph().as_default():
        yield


def test_a_shard_is_read_and_set_as_a_whole() -> None:
    table = tf.get_embedding_variable(
        "t", 2, ev_option=tf.EmbeddingVariableOption(evict_option=tf.GlobalStepEvict(6))
    )
    ids = tf.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - 1.0))
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    read = table.lookup(np.arange(9), insert=False)
    nodes = add_table_nodes(table)
    (shard,) = nodes.shards
    assert nodes.slots == ("Adam", "Adam_1")
    assert variables_of_tables(growing_tables()) == {
        *("t/values_0", "t/initial_0"),
        *("t/values_0/Adam", "t/values_0/Adam_1"),
    }

    def train_on(session: Any) -> Any:
        losses = [session.run([loss, train], {ids: [4, step % 3]})[0] for step in range(12)]
        return losses, session.run([read, *table.statistics().values()])

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        train_on(session)
        powers = [each for each in tf.global_variables() if "power" in each.op.name]
        before = session.run(powers)
        saved = session.run(dict(shard.values))
        session.run(shard.keep)
        expected = train_on(session)
        kept = session.run(dict(shard.kept))
        session.run(table.initializer)
        session.run([tf.assign(each, value) for each, value in zip(powers, before, strict=True)])
        session.run(shard.restore, {shard.feeds[part]: value for part, value in saved.items()})
        again = train_on(session)
        assert again[0] == expected[0]
        for first, second in zip(again[1], expected[1], strict=True):
            np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(kept["values"], saved["values"])
        session.run(shard.give_back)
        there = dict(zip(saved["keys"].tolist(), saved["values"][1:].tolist(), strict=False))
        for key, row in enumerate(session.run(read).tolist()):
            assert row == there.get(key, [0.0, 0.0])
