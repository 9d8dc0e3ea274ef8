"""Which rows are used for training."""

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
    "Which rows are used for training, and in what order.",
    (
        Row(
            "labelCol",
            "label",
            column,
            "str",
            "the labels: integers (passed as int64), other numbers (float32), or a vector or "
            "array of numbers",
            get="The label column.",
            of_rows=True,
        ),
        Row(
            "weightCol",
            "",
            text,
            "str",
            "the weights of the rows, passed to model_fn as `weights`; empty for none",
            get="The weight column, or an empty string.",
            of_rows=True,
        ),
        Row(
            "classWeights",
            {},
            class_weights,
            "str | dict[str, float]",
            "factor for the weights of the rows of each class: a dictionary from label to factor, "
            "or 'balanced'",
            get="The factors by label, or `balanced`.",
            of_rows=True,
        ),
        Row(
            "handleInvalid",
            "error",
            choice("error", "skip", "fill"),
            "str",
            "how rows with nulls or NaNs are handled: 'error', 'skip' (drop them) or 'fill' "
            "(replace with fillValue)",
            get="How invalid rows are handled: `error`, `skip` or `fill`.",
            of_rows=True,
        ),
        Row(
            "fillValue",
            0.0,
            number(-math.inf),
            "float",
            "replacement for nulls and NaNs in features if handleInvalid='fill'",
            get="The replacement for nulls and NaNs.",
            of_rows=True,
        ),
        Row(
            "inputShapes",
            {},
            shapes,
            "dict[str, list[int | None]]",
            "shape of one row of each input that is not a flat vector, by input name, such as "
            "[28, 28, 1]; [None] for lists of any length, which become a tf.SparseTensor",
            get="The shape of one row, by input name.",
            takes="Mapping[str, Sequence[int | None]]",
            of_rows=True,
        ),
        Row(
            "vectorFormat",
            "auto",
            choice("auto", "dense", "sparse"),
            "str",
            "what vector columns become: 'dense' tensors, 'sparse' ones (tf.SparseTensor), or "
            "'auto': sparse if fewer than one element in 20 is stored",
            get="The form of vector columns: `dense`, `sparse` or `auto`.",
            of_rows=True,
        ),
        Row(
            "validationIndicatorCol",
            "",
            text,
            "str",
            "boolean column that is true for validation rows; empty for none",
            get="The boolean column that marks validation rows, or an empty string.",
            see="[rows that validate](spark_inputs.md#rows-that-validate)",
            of_rows=True,
        ),
        Row(
            "validationFraction",
            0.0,
            number(0.0, 0.9),
            "float",
            "fraction of the rows, drawn with the seed, used for validation instead of training",
            get="The fraction of rows used for validation.",
            see="[rows that validate](spark_inputs.md#rows-that-validate)",
            of_rows=True,
        ),
        Row(
            "validationDraw",
            CONTENT,
            choice(*DRAWS),
            "str",
            "how validation rows are drawn: 'content' (equal rows go to the same side), 'single' "
            "(each row independently) or 'stratified' (this fraction of the rows of each class)",
            get="How `validationFraction` draws rows.",
            of_rows=True,
        ),
        Row(
            "shuffle",
            True,
            boolean,
            "bool",
            "whether the rows are shuffled anew in each epoch",
            get="Whether the rows are shuffled anew in each epoch.",
        ),
        Row(
            "cache",
            True,
            boolean,
            "bool",
            "whether the selected rows are cached in Spark while training starts; needed if the "
            "DataFrame returns different rows or another order each time it is computed",
            get="Whether the selected rows are cached.",
            decides=False,
            of_rows=True,
        ),
    ),
)
