"""When training is judged, kept and ended."""

from __future__ import annotations

from typing import Final

from sparkflow.spark.params.converters import (
    boolean,
    choice,
    integer,
    number,
    resumption,
    seconds_or_zero,
    text,
)
from sparkflow.spark.params.row import Group, Row

CONTROL: Final = Group(
    "ControlParams",
    "When training is judged, kept and ended.",
    (
        Row(
            "earlyStoppingPatience",
            0,
            integer(0),
            "int",
            "evaluations without a better value after which training ends and the best "
            "values are restored; 0 for never",
            get="Evaluations without improvement, or 0.",
            see="[control of training](spark_training_control.md)",
            decides=False,
            needed="has no effect without earlyStoppingPatience; set that to the number of "
            "evaluations to wait for a better value",
        ),
        Row(
            "earlyStoppingMetric",
            "loss",
            text,
            "str",
            "the metric that decides: 'loss' or a key of eval_metric_ops",
            get="The metric that decides.",
            decides=False,
            needs="earlyStoppingPatience",
        ),
        Row(
            "earlyStoppingMode",
            "auto",
            choice("auto", "min", "max"),
            "str",
            "whether a lower ('min') or a higher ('max') value of that metric is better; "
            "'auto' knows it of usual names ('auc', 'rmse', ...) and asks otherwise",
            get="`auto`, `min` or `max`.",
            decides=False,
            needs="earlyStoppingPatience",
        ),
        Row(
            "earlyStoppingMinDelta",
            0.0,
            number(0.0),
            "float",
            "how much better a value must be to count",
            get="How much better counts.",
            decides=False,
            needs="earlyStoppingPatience",
        ),
        Row(
            "validationSteps",
            0,
            integer(0),
            "int",
            "steps of all workers between evaluations; 0 for the end of each epoch",
            get="Steps between evaluations, or 0.",
            decides=False,
        ),
        Row(
            "checkpointDir",
            "",
            text,
            "str",
            "a directory on any file system that Spark or pyarrow can write (file:, hdfs:, "
            "s3a:, gs:); empty for none",
            get="The directory of checkpoints, or an empty text.",
            see="[control of training](spark_training_control.md)",
            decides=False,
            needed="needs checkpointDir, the directory of checkpoints",
        ),
        Row(
            "checkpointSteps",
            0,
            integer(0),
            "int",
            "steps of all workers between checkpoints; 0 for the end of each epoch",
            get="Steps between checkpoints, or 0.",
            decides=False,
            needs="checkpointDir",
        ),
        Row(
            "checkpointSeconds",
            0.0,
            seconds_or_zero,
            "float",
            "seconds between checkpoints; 0 for none by time",
            get="Seconds between checkpoints, or 0.",
            decides=False,
            needs="checkpointDir",
        ),
        Row(
            "keepCheckpointMax",
            3,
            integer(0),
            "int",
            "how many checkpoints are kept; 0 for all",
            get="Checkpoints that are kept, or 0.",
            decides=False,
            needs="checkpointDir",
        ),
        Row(
            "resume",
            "auto",
            resumption,
            "str",
            "whether training goes on from the last checkpoint in checkpointDir: 'auto' "
            "(if it is of the same training: parameters, graph and rows; an error "
            "otherwise), 'always' (if its variables fit), 'never'",
            get="`auto`, `always` or `never`.",
            decides=False,
            needs="checkpointDir",
        ),
        Row(
            "allowNonFinite",
            False,
            boolean,
            "bool",
            "whether training goes on when the loss or a variable is NaN or infinite, "
            "instead of stopping with an error",
            get="Whether NaNs and infinities are let pass.",
            decides=False,
        ),
    ),
)
