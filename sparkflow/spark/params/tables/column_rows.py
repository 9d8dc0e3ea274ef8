"""The columns of estimators and models, and how a model handles rows."""

from __future__ import annotations

import math
from typing import Final

from sparkflow.spark.params.converters import (
    choice,
    column_or_none,
    columns,
    integer,
    number,
)
from sparkflow.spark.params.row import Group, Row

COLUMNS: Final = Group(
    "ColumnAccessors",
    "The columns of both an estimator and its model.",
    (
        Row(
            "featuresCol",
            "features",
            columns,
            "FeaturesCol",
            "the features: a column of vectors, arrays or single values; a list of scalar "
            "columns; or a dictionary that maps the name of an input to either of these",
            get="The features column, a list of scalar columns, or a dictionary by input name.",
            see="[what goes in](spark_inputs.md)",
        ),
        Row(
            "predictionCol",
            "prediction",
            column_or_none,
            "str",
            "output column for the prediction named 'prediction', as a double; \"\" for none",
            get="The output column for the prediction named `prediction`.",
            decides=False,
        ),
        Row(
            "probabilityCol",
            "probability",
            column_or_none,
            "str",
            "output column for the prediction named 'probability', as a vector; \"\" for none",
            get="The output column for the prediction named `probability`.",
            decides=False,
        ),
        Row(
            "rawPredictionCol",
            "rawPrediction",
            column_or_none,
            "str",
            "output column for the prediction named 'rawPrediction', as a vector; \"\" for none",
            get="The output column for the prediction named `rawPrediction`.",
            decides=False,
        ),
        Row(
            "inferenceBatchSize",
            1024,
            integer(1),
            "int",
            "number of rows per run of the graph in transform",
            get="The number of rows that `transform` passes to the graph at once.",
            decides=False,
        ),
        Row(
            "inferenceDevice",
            "auto",
            choice("auto", "cpu", "gpu"),
            "str",
            "where transform runs the graph: 'auto' (on the GPU that Spark assigns to the task, "
            "if there is one, else on the CPU), 'cpu' or 'gpu'",
            get="The device of `transform`: `auto`, `cpu` or `gpu`.",
            decides=False,
        ),
    ),
)

INFERENCE: Final = Group(
    "InferenceAccessors",
    "The parameters of a model. Values of those that its estimator also has are copied from it.",
    (
        Row(
            "handleInvalid",
            "error",
            choice("error", "skip", "keep", "fill"),
            "str",
            "how transform handles rows with nulls or NaNs in the features: 'error', 'skip' (drop "
            "them), 'keep' (null predictions) or 'fill' (replace with fillValue)",
            get="How `transform` handles invalid rows: `error`, `skip`, `keep` or `fill`.",
        ),
        Row(
            "fillValue",
            0.0,
            number(-math.inf),
            "float",
            "replacement for nulls and NaNs in features if handleInvalid='fill'",
            get="The replacement for nulls and NaNs.",
        ),
    ),
)
