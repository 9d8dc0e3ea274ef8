"""The parameters of `SparkTrainer` and its model: to add one is to add a row here.

Every value is checked when it is set, so that a wrong one fails before any job. After a change run
`scripts/generate_params.py`.
"""

from __future__ import annotations

import math
from typing import Final

from sparkflow.spark.endpoints import require_interface
from sparkflow.spark.params.converters import (
    auto_or_boolean,
    boolean,
    choice,
    class_weights,
    column,
    columns,
    in_process,
    integer,
    json_dict,
    number,
    ports,
    resumption,
    seconds,
    seconds_or_zero,
    shapes,
    text,
)
from sparkflow.spark.params.row import Group, Row

SYNC_MODES = ("async", "sync", "ssp", "allreduce")

AUTO, ALWAYS = "auto", "always"
"""Values of `inProcess`, beside `never`."""

CONTENT, SINGLE, STRATIFIED = DRAWS = ("content", "single", "stratified")
"""The values of `validationDraw`."""

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
        ),
        Row(
            "weightCol",
            "",
            text,
            "str",
            "the weights of the rows, given to model_fn as `weights`; empty for none",
            get="The column of the weights, or an empty text.",
        ),
        Row(
            "classWeights",
            {},
            class_weights,
            "str | dict[str, float]",
            "a factor for the weights of the rows of each class: a dictionary of label to "
            "factor, or 'balanced'",
            get="Factors by label, or `balanced`.",
        ),
        Row(
            "handleInvalid",
            "error",
            choice("error", "skip", "fill"),
            "str",
            "what is done with rows that hold nulls or NaNs: 'error', 'skip' (leave them "
            "out) or 'fill' (with fillValue)",
            get="`error`, `skip` or `fill`.",
        ),
        Row(
            "fillValue",
            0.0,
            number(-math.inf),
            "float",
            "what takes the place of nulls and NaNs in features with handleInvalid='fill'",
            get="The value for nulls and NaNs.",
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
        ),
        Row(
            "validationIndicatorCol",
            "",
            text,
            "str",
            "a boolean column: true for the rows that validate; empty for none",
            get="The boolean column of validation rows, or an empty text.",
            see="[rows that validate](spark_inputs.md#rows-that-validate)",
        ),
        Row(
            "validationFraction",
            0.0,
            number(0.0, 0.9),
            "float",
            "the share of the rows, drawn by the seed, that validate instead of train",
            get="The share of rows that validate.",
            see="[rows that validate](spark_inputs.md#rows-that-validate)",
        ),
        Row(
            "validationDraw",
            CONTENT,
            choice(*DRAWS),
            "str",
            "how they are drawn: 'content' (equal rows are on one side), 'single' (each "
            "row for itself) or 'stratified' (this share of the rows of each class)",
            get="How `validationFraction` draws rows.",
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
        ),
    ),
)

TRAINING: Final = Group(
    "TrainingParams",
    "How the replicas train.",
    (
        Row(
            "numWorkers",
            1,
            integer(1),
            "int",
            "tasks that compute gradients, each on its rows; a pair (min, max) trains with as "
            "many as there are slots for, see minWorkers",
            get="The number of workers, at most where it may change.",
        ),
        Row(
            "minWorkers",
            0,
            integer(0),
            "int",
            "with how many workers training may go on while slots are missing: it takes up to "
            "numWorkers as executors come and go; 0 for always numWorkers",
            get="The least number of workers; 0 where it does not change.",
            decides=False,
        ),
        Row(
            "numPs",
            1,
            integer(0),
            "int",
            "tasks that hold the variables; 0 has the workers hold them beside their work",
            get="The number of tasks that only hold variables.",
        ),
        Row(
            "inProcess",
            AUTO,
            in_process,
            "str",
            "whether the only worker trains inside its Spark task, without sockets and processes "
            "of its own: 'auto' (where Spark Connect's Python workers may have none), 'always' or "
            "'never'",
            get="`auto`, `always` or `never`.",
            takes="str | bool",
            see="[locked-down compute](deploy/locked_down.md)",
            decides=False,
        ),
        Row(
            "modelParallel",
            1,
            integer(1),
            "int",
            "tasks among which each worker's copy of the model is divided, by "
            "tf.device(sparkflow.spark.stage(i)) in model_fn or else by itself",
            get="Tasks per copy of the model.",
            decides=False,
        ),
        Row(
            "microBatches",
            0,
            integer(0),
            "int",
            "with modelParallel: parts of a batch that its tasks work on at the same time; 0 for "
            "four per task",
            get="Parts of a batch.",
            decides=False,
        ),
        Row(
            "batchSize",
            128,
            integer(1),
            "int",
            "rows per step of each worker",
            get="Rows per step of each worker.",
        ),
        Row(
            "epochs",
            1,
            integer(1),
            "int",
            "how often each row is trained on",
            get="How often each row is trained on.",
            decides=False,
        ),
        Row(
            "maxSteps",
            0,
            integer(0),
            "int",
            "steps of all workers after which training ends before the epochs do; 0 for no limit",
            get="The most steps, or 0.",
            decides=False,
        ),
        Row(
            "syncMode",
            "async",
            choice(*SYNC_MODES),
            "str",
            "how gradients meet: 'async' (each worker applies its own), 'sync' (averaged "
            "over all workers at each step), 'ssp' (async, but no worker is more than "
            "staleness steps ahead), 'allreduce' (sync among the workers, without "
            "parameter servers)",
            get="`async`, `sync`, `ssp` or `allreduce`.",
        ),
        Row(
            "staleness",
            3,
            integer(0),
            "int",
            "with syncMode='ssp': how many steps a worker may be ahead of the slowest",
            get="Steps that a worker may be ahead.",
        ),
        Row(
            "backupWorkers",
            0,
            integer(0),
            "int",
            "with syncMode='sync': workers whose gradients a step does not wait for",
            get="Workers that a step does not wait for.",
        ),
        Row(
            "gradientAccumulation",
            1,
            integer(1),
            "int",
            "batches whose gradients are added up before they are applied",
            get="Batches per update.",
        ),
        Row(
            "seed",
            42,
            integer(0),
            "int",
            "decides the orders of the rows, splits, and the random ops that have no seed",
            get="The seed.",
        ),
        Row(
            "modelParams",
            {},
            json_dict,
            "dict[str, Any]",
            "passed to model_fn as its params",
            get="What `model_fn` gets as `params`.",
        ),
    ),
)

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

FAULT_TOLERANCE: Final = Group(
    "FaultToleranceParams",
    "Deadlines, restarts, logs and encryption of the job.",
    (
        Row(
            "startTimeout",
            120.0,
            seconds,
            "float",
            "seconds that Spark has for starting all tasks, and the tasks for receiving "
            "their rows without a sign of progress",
            get="Seconds for starting the tasks.",
            decides=False,
        ),
        Row(
            "stallTimeout",
            600.0,
            seconds,
            "float",
            "seconds without a step of any worker after which training is given up with a "
            "report of who waits for whom",
            get="Seconds without a step.",
            decides=False,
        ),
        Row(
            "maxRestarts",
            3,
            integer(0),
            "int",
            "how often training is started again, from the last checkpoint if there is "
            "one, after the loss of a task or executor",
            get="How often training is started again.",
            decides=False,
        ),
        Row(
            "ports",
            "",
            ports,
            "str",
            "the ports that the tasks' processes and the driver listen on: a range "
            "('40000-40100'), one port, or '' for any free ones",
            get="The ports that are listened on, `''` for any.",
            decides=False,
        ),
        Row(
            "interface",
            "",
            require_interface,
            "str",
            "the address of each machine that its tasks' processes listen on: the name of an "
            "interface ('eth0'), a network ('10.1.0.0/16'), or '' for the one that the driver "
            "sees",
            get="The interface or network that tasks listen on.",
            decides=False,
        ),
        Row(
            "workerLogs",
            False,
            boolean,
            "bool",
            "whether what tasks write to stderr is shown on the driver, with the role of "
            "the task before each line",
            get="Whether the logs of tasks are shown.",
            decides=False,
        ),
        Row(
            "tls",
            "auto",
            auto_or_boolean,
            "str | bool",
            "whether all that driver and tasks say to each other over the network is encrypted: "
            "'auto' (as soon as one address is not loopback), True or False",
            get="`auto`, True or False.",
            see="[security](security.md#spark)",
            decides=False,
        ),
    ),
)

REPORTING: Final = Group(
    "ReportingParams",
    "What is shown while training runs.",
    (
        Row(
            "progress",
            True,
            boolean,
            "bool",
            "whether the driver shows how training goes: a bar in terminals, a table in notebooks",
            get="Whether progress is shown.",
            see="[seeing it train](spark_seeing.md)",
            decides=False,
        ),
        Row(
            "logDir",
            "",
            text,
            "str",
            "a directory on the driver, or a URI that pyarrow can write, for TensorBoard; "
            "each fit gets a folder of its own there, written live; empty for none",
            get="The directory for TensorBoard, or an empty text.",
            decides=False,
        ),
        Row(
            "mlflow",
            False,
            boolean,
            "bool",
            "whether parameters, metrics and the model are logged to an MLflow run of the "
            "fit, a child of the active run if there is one",
            get="Whether MLflow is told.",
            decides=False,
        ),
        Row(
            "registeredModelName",
            "",
            text,
            "str",
            "with mlflow, the model of MLflow's registry that the trained model becomes a version "
            "of, such as main.ml.flights in Unity Catalog; empty for none",
            get="The model of MLflow's registry, or an empty text.",
            see="[MLflow](spark_seeing.md#mlflow)",
            decides=False,
            needs="mlflow",
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
TRAINER: Final = (COLUMNS, DATA, TRAINING, CONTROL, FAULT_TOLERANCE, REPORTING)
"""The groups of an estimator; a model has `COLUMNS` and `INFERENCE`."""
