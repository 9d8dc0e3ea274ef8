"""Every name in the right-hand columns of docs/coming_from.md exists."""

import re
from pathlib import Path

import pytest

import sparkflow as tf
from sparkflow import export, spark as of_spark
from sparkflow.spark.control.history.training_history import TrainingHistory

PAGE = Path(__file__).parents[2] / "docs" / "coming_from.md"
ROWS = re.findall(r"^\| (.+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
NAMES = sorted({name for _, right in ROWS for name in re.findall(r"`([^`]+)`", right)})
NOT_NAMES = {"TF_CONFIG", "mode", "model_fn", "tfrecord", "validation"}
"""A variable of the environment, arguments of functions, a format."""


def parameters(name):
    made = getattr(of_spark, name)
    if name == "SparkTrainer":
        return made(model_fn=lambda features: None)
    given = {"network": lambda features: None} if name.startswith("SparkTrainer") else {}
    return made(**given)


def with_attributes(thing, path):
    for each in path:
        assert hasattr(thing, each), f"{thing} has no {each}"
        thing = getattr(thing, each)


def test_there_are_names():
    assert len(NAMES) > 90


@pytest.mark.parametrize("name", [each for each in NAMES if each not in NOT_NAMES])
def test_the_name_exists(name):
    called, _, arguments = name.partition("(")
    keywords = re.findall(r"(\w+)=", arguments)
    first, *rest = called.split(".")
    if first == "tf":
        with_attributes(tf, rest)
    elif first == "model":
        if rest[0] == "history":
            history = TrainingHistory()
            with_attributes(history, rest[1:])
        else:
            with_attributes(of_spark.SparkTrainerClassificationModel, rest)
    elif re.fullmatch(r"[a-z]\w*=.+", name):
        keyword = name.partition("=")[0]
        estimators = ("SparkTrainer", "SparkWideDeepClassifier", "SparkDNNClassifier")
        assert any(parameters(each).hasParam(keyword) for each in estimators)
    else:
        made = getattr(of_spark, first, None) or getattr(export, first)
        with_attributes(made, rest)
        for keyword in keywords:
            if first == "SparkCluster":
                assert keyword in of_spark.SparkCluster.__init__.__annotations__
            elif keyword not in ("network", "model_fn"):
                assert parameters(first).hasParam(keyword)
