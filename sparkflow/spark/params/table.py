"""The parameters of `SparkTrainer` and its model: to add one, add a row to one of the `tables`.

Every value is checked when it is set, so that an invalid one fails before any job. After a change
run `scripts/generate_params.py`.
"""

from __future__ import annotations

from typing import Final

from sparkflow.spark.params.tables.column_rows import COLUMNS, INFERENCE
from sparkflow.spark.params.tables.control_rows import CONTROL
from sparkflow.spark.params.tables.data_rows import DATA
from sparkflow.spark.params.tables.job_rows import FAULT_TOLERANCE, REPORTING
from sparkflow.spark.params.tables.training_rows import TRAINING

__all__ = [
    "COLUMNS",
    "CONTROL",
    "DATA",
    "FAULT_TOLERANCE",
    "INFERENCE",
    "REPORTING",
    "TRAINER",
    "TRAINING",
]

TRAINER: Final = (COLUMNS, DATA, TRAINING, CONTROL, FAULT_TOLERANCE, REPORTING)
"""The groups of an estimator; a model has `COLUMNS` and `INFERENCE`."""
