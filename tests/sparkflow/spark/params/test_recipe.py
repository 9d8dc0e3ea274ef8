"""A parameter is added as CONTRIBUTING describes it: by a row of a table, and nothing else.

This is a separate program, since a class has its Params for the lifetime of a process: it adds a
row to a table before anything is derived from it, runs the generator, and uses its output instead
of the files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark  # imports pyspark

ROOT = Path(__file__).parents[4]

PROGRAM = """
import inspect, json, pydoc, runpy, sys, types
from dataclasses import replace
from pathlib import Path

from sparkflow.spark.params import table
from sparkflow.spark.params.converters import number
from sparkflow.spark.params.row import Row
from sparkflow.spark.params.tables import training_rows

row = Row(
    "labelSmoothing",
    0.0,
    number(0.0, 1.0),
    "float",
    "how much of each label is spread over all classes",
    get="The share of a label that is spread.",
    decides=False,
    needs="backupWorkers",
)
wider = replace(table.TRAINING, rows=(*table.TRAINING.rows, row))
table.TRAINING = training_rows.TRAINING = wider
table.TRAINER = tuple(wider if each.name == wider.name else each for each in table.TRAINER)

generated = runpy.run_path(sys.argv[1])["generated"]()
by_name = {path.name: text for path, text in generated.items()}
for name in ("values", "accessors.training_accessors"):
    module = types.ModuleType(f"sparkflow.spark.params.{name}")
    sys.modules[module.__name__] = module
    file = f"{name.rpartition('.')[2]}.py"
    exec(compile(by_name[file], file, "exec"), vars(module))

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter
from sparkflow.spark import SparkLinearClassifier, SparkTrainer, SparkTrainerModel
from sparkflow.spark.params.checks import check_params
from sparkflow.spark.params.identity import deciding

found = {}
trainer = SparkTrainer(model_fn=lambda features: None, label_smoothing=0.25)
found["getter"] = trainer.getLabelSmoothing(), trainer.setLabelSmoothing(0.5).getLabelSmoothing()
found["config"] = trainer.config().label_smoothing, trainer.config().params["labelSmoothing"]
found["help"] = pydoc.render_doc(SparkTrainer, renderer=pydoc.plaintext)
found["explained"] = trainer.explainParam("labelSmoothing")
found["signature"] = str(inspect.signature(SparkTrainer).parameters["labelSmoothing"])
found["estimator"] = SparkLinearClassifier(labelSmoothing=0.1).config().label_smoothing
found["model"] = "labelSmoothing" in {param.name for param in SparkTrainerModel(None).params}
for name, refused in {
    "too large": lambda: trainer.setParams(labelSmoothing=2),
    "of no use": lambda: check_params(trainer.config(), {"labelSmoothing"}),
    "misspelt": lambda: trainer.setParams(labelSmothing=0.1),
}.items():
    try:
        refused()
    except (ValueError, TypeError) as error:
        found[name] = str(error)
found["deciding"] = "labelSmoothing" in deciding(trainer.config().params, trainer._table_rows())

saved = DefaultParamsWriter._get_metadata_to_save(trainer, types.SimpleNamespace(version="4.0.0"))
again = SparkTrainer(model_fn=trainer.model_fn)
DefaultParamsReader.getAndSetParams(again, DefaultParamsReader._parseMetaData(saved))
found["loaded"] = again.getLabelSmoothing()
found["copied"] = trainer.copy({"label_smoothing": 0.75}).getLabelSmoothing()
found["page"] = by_name["spark_trainer.md"]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "scripts/generate_params.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def test_it_is_set_and_checked_in_both_spellings(found: dict[str, Any]) -> None:
    assert found["getter"] == [0.25, 0.5]
    assert found["config"] == [0.5, 0.5]
    assert found["estimator"] == 0.1
    assert found["copied"] == 0.75
    assert found["too large"] == "labelSmoothing: must be between 0 and 1, got 2"
    assert "Did you mean labelSmoothing?" in found["misspelt"]
    assert not found["model"]


def test_help_and_completion_have_it(found: dict[str, Any]) -> None:
    assert found["signature"] == "labelSmoothing=0.0"
    assert "labelSmoothing=0.0" in found["help"]
    assert "setLabelSmoothing(self: 'Self', value: 'float') -> 'Self'" in found["help"]
    assert "how much of each label is spread over all classes" in found["help"]
    assert "(default: 0.0, current: 0.5)" in found["explained"]


def test_what_its_row_says_beside_is_kept(found: dict[str, Any]) -> None:
    assert found["of no use"].startswith("labelSmoothing=0.5 has no effect without backupWorkers")
    assert not found["deciding"]


def test_it_is_saved_and_documented(found: dict[str, Any]) -> None:
    assert found["loaded"] == 0.5
    line = "| `labelSmoothing` | 0 | how much of each label is spread over all classes |"
    assert line in found["page"].splitlines()
