"""Which rows are trained on."""

from __future__ import annotations

import math
from typing import Final

from sparkflow.spark.params.converters import (
    boolean,
    choice,
    class_weights,
    column,
    number,
    shapes,
    text,
)
from sparkflow.spark.params.row import Group, Row

CONTENT, SINGLE, STRATIFIED = DRAWS = ("content", "single", "stratified")
"""The values of `validationDraw`."""

DATA: Final = Group(
    "DataParams",
    "Which rows are trained on, and in what order.",
    (
        Row(
            "labelCol",
            "label",
            column,
            "str",
            "the labels: integers (given as int64), other numbers (float32), or a vector "
            "or array of them",
            get="The label column.",
            of_rows=True,
        ),
        Row(
            "weightCol",
            "",
            text,
            "str",
            "the weights of the rows, given to model_fn as `weights`; empty for none",
            get="The column of the weights, or an empty text.",
            of_rows=True,
        ),
        Row(
            "classWeights",
            {},
            class_weights,
            "str | dict[str, float]",
            "a factor for the weights of the rows of each class: a dictionary of label to "
            "factor, or 'balanced'",
            get="Factors by label, or `balanced`.",
            of_rows=True,
        ),
        Row(
            "handleInvalid",
            "error",
            choice("error", "skip", "fill"),
            "str",
            "what is done with rows that hold nulls or NaNs: 'error', 'skip' (leave them "
            "out) or 'fill' (with fillValue)",
            get="`error`, `skip` or `fill`.",
            of_rows=True,
        ),
        Row(
            "fillValue",
            0.0,
            number(-math.inf),
            "float",
            "what takes the place of nulls and NaNs in features with handleInvalid='fill'",
            get="The value for nulls and NaNs.",
            of_rows=True,
        ),
        Row(
            "inputShapes",
            {},
            shapes,
            "dict[str, list[int | None]]",
            "the shape of a row of each input that is no flat vector, by its name, as [28, "
            "28, 1]; [None] for lists of any length, which become a tf.SparseTensor",
            get="Shapes of rows by input.",
            takes="Mapping[str, Sequence[int | None]]",
            of_rows=True,
        ),
        Row(
            "vectorFormat",
            "auto",
            choice("auto", "dense", "sparse"),
            "str",
            "what columns of vectors become: 'dense' tensors, 'sparse' ones "
            "(tf.SparseTensor), or 'auto': sparse where fewer than one element in 20 is "
            "stored",
            get="`dense`, `sparse` or `auto`.",
            of_rows=True,
        ),
        Row(
            "validationIndicatorCol",
            "",
            text,
            "str",
            "a boolean column: true for the rows that validate; empty for none",
            get="The boolean column of validation rows, or an empty text.",
            see="[rows that validate](spark_inputs.md#rows-that-validate)",
            of_rows=True,
        ),
        Row(
            "validationFraction",
            0.0,
            number(0.0, 0.9),
            "float",
            "the share of the rows, drawn by the seed, that validate instead of train",
            get="The share of rows that validate.",
            see="[rows that validate](spark_inputs.md#rows-that-validate)",
            of_rows=True,
        ),
        Row(
            "validationDraw",
            CONTENT,
            choice(*DRAWS),
            "str",
            "how they are drawn: 'content' (equal rows are on one side), 'single' (each "
            "row for itself) or 'stratified' (this share of the rows of each class)",
            get="How `validationFraction` draws rows.",
            of_rows=True,
        ),
        Row(
            "shuffle",
            True,
            boolean,
            "bool",
            "whether the rows come in a new order at each epoch",
            get="Whether the rows come in a new order at each epoch.",
        ),
        Row(
            "cache",
            True,
            boolean,
            "bool",
            "whether the selected rows are cached in Spark while training starts; needed "
            "where the DataFrame gives other rows or another order each time",
            get="Whether the selected rows are cached.",
            decides=False,
            of_rows=True,
        ),
    ),
)
