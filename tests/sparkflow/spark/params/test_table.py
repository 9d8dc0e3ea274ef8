"""What is generated from the tables of parameters matches them."""

from __future__ import annotations

import inspect
import runpy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sparkflow.spark.estimators import estimator_table as estimators
from sparkflow.spark.params import table
from sparkflow.spark.params.row import UNSET, Group, Row, camel_case, snake_case
from sparkflow.spark.params.values import TrainerValues

pytestmark = pytest.mark.spark  # the accessors import pyspark

SCRIPT = Path(__file__).parents[4] / "scripts/generate_params.py"
TRAINER = {row.name: row for group in table.TRAINER for row in group}


def test_generated_files_are_up_to_date() -> None:
    generated = runpy.run_path(str(SCRIPT))["generated"]()
    assert len(generated) == 8  # five topics of accessors, values, estimators, documentation
    for path, content in generated.items():
        assert path.read_text() == content, f"{path}: run scripts/generate_params.py"


def test_the_trainer_has_the_parameters_of_its_table() -> None:
    from sparkflow.spark import SparkTrainer

    trainer = SparkTrainer(model_fn=lambda features: None)
    assert {param.name for param in trainer.params} == set(TRAINER)
    for name, row in TRAINER.items():
        assert trainer.getOrDefault(name) == row.convert(row.default) == row.default
        assert trainer.getParam(name).doc == row.doc


def test_a_config_has_a_field_for_each() -> None:
    found = {each.name: getattr(TrainerValues(), each.name) for each in fields(TrainerValues)}
    assert found == {row.snake: row.default for row in TRAINER.values()}


def test_constructors_and_accessors_show_what_they_take() -> None:
    from sparkflow.spark import SparkDNNClassifier, SparkTrainer, SparkTrainerModel

    signature = inspect.signature(SparkTrainer)
    assert set(TRAINER) < set(signature.parameters)
    assert signature.parameters["batchSize"].default == 128
    assert signature.parameters["model_fn"].default is inspect.Parameter.empty
    assert inspect.signature(SparkDNNClassifier).parameters["batchSize"].default == 0
    assert "params" not in signature.parameters
    assert list(inspect.signature(SparkTrainerModel).parameters) == ["inference_model", "history"]
    setter: Any = SparkTrainer.setBatchSize
    assert inspect.signature(setter).parameters["value"].annotation == "int"
    assert "rows per step of each worker" in (inspect.getdoc(setter) or "")


@pytest.mark.parametrize("group", [*table.TRAINER, table.INFERENCE, *estimators.GROUPS])
def test_rows_are_whole(group: Group) -> None:
    known = {row.name for each in (*table.TRAINER, *estimators.GROUPS) for row in each}
    for row in group:
        assert row.doc
        assert row.get.endswith(".")
        assert camel_case(snake_case(row.name)) == row.name
        assert row.default is UNSET or row.convert(row.default) == row.default
        assert not row.needs or row.needs in known


def test_rows_are_found_by_name() -> None:
    row: Row = table.TRAINING["batchSize"]
    assert (row.snake, row.title) == ("batch_size", "BatchSize")
    with pytest.raises(KeyError):
        table.TRAINING["nothing"]
