"""The columns of estimators and models, and what a model does with rows."""

from __future__ import annotations

import math
from typing import Final

from sparkflow.spark.params.converters import choice, column, columns, integer, number
from sparkflow.spark.params.row import Group, Row

COLUMNS: Final = Group(
    "ColumnAccessors",
    "The columns that both the estimator and its model know.",
    (
        Row(
            "featuresCol",
            "features",
            columns,
            "FeaturesCol",
            "the features: a column of vectors, arrays or single values; a list of scalar "
            "columns; or a dictionary of named inputs, each of which is one of these",
            get="The features column, the list of scalar columns, or these by the input's name.",
            see="[what goes in](spark_inputs.md)",
        ),
        Row(
            "predictionCol",
            "prediction",
            column,
            "str",
            "receives the prediction named 'prediction', as a double",
            get="The column of the prediction named `prediction`.",
            decides=False,
        ),
        Row(
            "probabilityCol",
            "probability",
            column,
            "str",
            "receives the prediction named 'probability', as a vector",
            get="The column of the prediction named `probability`.",
            decides=False,
        ),
        Row(
            "rawPredictionCol",
            "rawPrediction",
            column,
            "str",
            "receives the prediction named 'rawPrediction', as a vector",
            get="The column of the prediction named `rawPrediction`.",
            decides=False,
        ),
        Row(
            "inferenceBatchSize",
            1024,
            integer(1),
            "int",
            "rows per run of the graph in transform",
            get="How many rows `transform` runs the graph on at once.",
            decides=False,
        ),
        Row(
            "inferenceDevice",
            "auto",
            choice("auto", "cpu", "gpu"),
            "str",
            "where transform runs the graph: 'auto' (on the GPU that Spark gives the task, "
            "if it gives one), 'cpu' or 'gpu'",
            get="`auto`, `cpu` or `gpu`.",
            decides=False,
        ),
    ),
)

INFERENCE: Final = Group(
    "InferenceAccessors",
    "The parameters of a model. Those that its estimator has as well come from there.",
    (
        Row(
            "handleInvalid",
            "error",
            choice("error", "skip", "keep", "fill"),
            "str",
            "what transform does with rows that hold nulls or NaNs in the features: "
            "'error', 'skip' (leave them out), 'keep' (null predictions) or 'fill' (with "
            "fillValue)",
            get="`error`, `skip`, `keep` or `fill`.",
        ),
        Row(
            "fillValue",
            0.0,
            number(-math.inf),
            "float",
            "what takes the place of nulls and NaNs in features with handleInvalid='fill'",
            get="The value for nulls and NaNs.",
        ),
    ),
)
