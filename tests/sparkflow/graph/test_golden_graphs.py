"""Graphs that TensorFlow wrote: control flow of both kinds, TensorArrays, resource variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

FOLDER = Path(__file__).parents[2] / "golden" / "graphs"
PROGRAMS = json.loads((FOLDER / "graphs.json").read_text())


def graph_def_of(program: str) -> Any:
    """The GraphDef of a program."""
    message = tf.GraphDef()
    message.ParseFromString((FOLDER / f"{program}.pb").read_bytes())
    return message


def array(written: Any) -> np.ndarray[Any, Any]:
    """A value of the JSON file."""
    dtype, shape, elements = written
    return np.array(elements, dtype).reshape(shape)


@pytest.mark.parametrize("program", PROGRAMS)
def test_runs_as_in_tensorflow(program: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def_of(program), name="")
    with tf.Session(graph=graph) as session:
        for step in PROGRAMS[program]:
            feeds = {name: array(each) for name, each in step["feeds"].items()}
            if "error" in step:
                with pytest.raises(getattr(tf.errors, step["error"])):
                    session.run(step["fetches"], feeds)
                continue
            found = session.run(step["fetches"], feeds)
            for name, value, expected in zip(step["fetches"], found, step["values"], strict=True):
                if expected is None:
                    assert value is None
                    continue
                wanted = array(expected)
                assert np.shape(value) == wanted.shape, name
                assert np.asarray(value).dtype == wanted.dtype, name
                np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
