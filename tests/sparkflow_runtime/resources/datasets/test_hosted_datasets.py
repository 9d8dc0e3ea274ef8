"""Rows hosted by a process are found by the descriptions in graphs."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.data import structure
from sparkflow.data.sources import dataset_of
from sparkflow_runtime.resources.datasets import hosted_datasets
from sparkflow_runtime.resources.datasets.dataset_sources import of_slices

ROWS = np.float32([[1, 2], [3, 4], [5, 6]])


@pytest.fixture
def hosted():
    asked = []

    def find(source):
        asked.append(source)
        return of_slices([ROWS])

    hosted_datasets.host(find)
    yield asked
    hosted_datasets.host(None)


def dataset(source):
    element = structure.Component(tf.float32, (2,))
    return dataset_of(
        "SparkflowHostedDataset", [], element, source=source, **structure.attrs(element)
    )


def test_a_graph_asks_by_its_text(hosted):
    with tf.Graph().as_default(), tf.Session() as session:
        batch = dataset("those").repeat(2).batch(4).make_one_shot_iterator().get_next()
        np.testing.assert_array_equal(session.run(batch), ROWS[[0, 1, 2, 0]])
        np.testing.assert_array_equal(session.run(batch), ROWS[[1, 2]])
    assert hosted == ["those"]


def test_elements_of_another_shape_are_refused(hosted):
    element = structure.Component(tf.float32, (3,))
    with tf.Graph().as_default(), tf.Session() as session:
        attrs = structure.attrs(element)
        made = dataset_of("SparkflowHostedDataset", [], element, source="", **attrs)
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"float32 \(2,\), the graph expects float32 \(3,\)",
        ):
            session.run(made.make_one_shot_iterator().get_next())


def test_a_process_without_rows_says_so():
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        pytest.raises(tf.errors.NotFoundError, match="hosts no rows of a DataFrame"),
    ):
        session.run(dataset("those").make_one_shot_iterator().get_next())
