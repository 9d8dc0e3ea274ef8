"""How the replicas train."""

from __future__ import annotations

from typing import Final

from sparkflow.spark.params.converters import choice, in_process, integer, json_dict
from sparkflow.spark.params.row import Group, Row
from sparkflow.spark.task_resources import ps_resources, worker_resources

SYNC_MODES = ("async", "sync", "ssp", "allreduce")

AUTO, ALWAYS = "auto", "always"
"""Values of `inProcess`, beside `never`."""

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
            "workerResources",
            {},
            worker_resources,
            "dict[str, Any]",
            "what Spark gives each worker's task: amounts by name ({'cpus': 2, 'gpu': 1}) or a "
            "pyspark.resource.ResourceProfile; {} for what Spark's settings say",
            get="What a worker's task takes, as a dictionary.",
            takes="Any",
            see="[resources per role](spark_operations.md#resources-per-role)",
            decides=False,
            of_rows=True,
        ),
        Row(
            "psResources",
            {},
            ps_resources,
            "dict[str, Any]",
            "what Spark gives each parameter server's task, as workerResources; they have a Spark "
            "job of their own then, and take no GPU",
            get="What a parameter server's task takes, as a dictionary.",
            takes="Any",
            see="[resources per role](spark_operations.md#resources-per-role)",
            decides=False,
            of_rows=True,
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
            "two per task",
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
