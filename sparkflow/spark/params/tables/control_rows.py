"""When training is evaluated, checkpointed and stopped."""

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
    "When training is evaluated, checkpointed and stopped.",
    (
        Row(
            "earlyStoppingPatience",
            0,
            integer(0),
            "int",
            "number of evaluations without improvement after which training stops and the best "
            "values are restored; 0 for never",
            get="The number of evaluations without improvement before training stops.",
            see="[control of training](spark_training_control.md)",
            decides=False,
            needed="has no effect without earlyStoppingPatience, the number of evaluations to wait "
            "for an improvement",
        ),
        Row(
            "earlyStoppingMetric",
            "loss",
            text,
            "str",
            "the metric that early stopping watches: 'loss' or a key of eval_metric_ops",
            get="The metric that early stopping watches.",
            decides=False,
            needs="earlyStoppingPatience",
        ),
        Row(
            "earlyStoppingMode",
            "auto",
            choice("auto", "min", "max"),
            "str",
            "whether a lower ('min') or a higher ('max') value of that metric is better; 'auto' "
            "infers it from common names ('auc', 'rmse', ...) and raises an error for others",
            get="The direction of the metric: `auto`, `min` or `max`.",
            decides=False,
            needs="earlyStoppingPatience",
        ),
        Row(
            "earlyStoppingMinDelta",
            0.0,
            number(0.0),
            "float",
            "smallest change of the metric that counts as an improvement",
            get="The smallest change that counts as an improvement.",
            decides=False,
            needs="earlyStoppingPatience",
        ),
        Row(
            "validationSteps",
            0,
            integer(0),
            "int",
            "steps, summed over all workers, between evaluations; 0 to evaluate at the end of "
            "each epoch",
            get="The steps between evaluations, or 0 for the end of each epoch.",
            decides=False,
        ),
        Row(
            "checkpointDir",
            "",
            text,
            "str",
            "directory for checkpoints, on any file system that Spark or pyarrow can write to "
            "(file:, hdfs:, s3a:, gs:); empty for none",
            get="The directory for checkpoints, or an empty string.",
            see="[control of training](spark_training_control.md)",
            decides=False,
            needed="needs checkpointDir, the directory of checkpoints",
        ),
        Row(
            "checkpointSteps",
            0,
            integer(0),
            "int",
            "steps, summed over all workers, between checkpoints; 0 to write one at the end of "
            "each epoch",
            get="The steps between checkpoints, or 0 for the end of each epoch.",
            decides=False,
            needs="checkpointDir",
        ),
        Row(
            "checkpointSeconds",
            0.0,
            seconds_or_zero,
            "float",
            "seconds between checkpoints; 0 for no time-based checkpoints",
            get="The seconds between checkpoints, or 0.",
            decides=False,
            needs="checkpointDir",
        ),
        Row(
            "keepCheckpointMax",
            3,
            integer(0),
            "int",
            "maximum number of checkpoints to keep; 0 for all",
            get="The maximum number of checkpoints to keep, or 0 for all.",
            decides=False,
            needs="checkpointDir",
        ),
        Row(
            "resume",
            "auto",
            resumption,
            "str",
            "whether training resumes from the last checkpoint in checkpointDir: 'auto' (yes; an "
            "error if it belongs to a different training: other parameters, graph or rows), "
            "'always' (if its variables fit) or 'never'",
            get="When training resumes: `auto`, `always` or `never`.",
            decides=False,
            needs="checkpointDir",
        ),
        Row(
            "allowNonFinite",
            False,
            boolean,
            "bool",
            "whether training continues when the loss or a variable is NaN or infinite, instead "
            "of stopping with an error",
            get="Whether training continues after a NaN or infinity.",
            decides=False,
        ),
    ),
)
