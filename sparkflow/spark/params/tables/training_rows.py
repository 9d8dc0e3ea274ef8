"""How the replicas train."""

from __future__ import annotations

from typing import Final

from sparkflow.spark.params.converters import choice, in_process, integer, json_dict
from sparkflow.spark.params.row import Group, Row
from sparkflow.spark.task_resources import ps_resources, worker_resources

SYNC_MODES = ("async", "sync", "ssp", "allreduce")

AUTO, ALWAYS = "auto", "always"
"""The values of `inProcess` other than `never`."""

TRAINING: Final = Group(
    "TrainingParams",
    "How the replicas train.",
    (
        Row(
            "numWorkers",
            1,
            integer(1),
            "int",
            "number of tasks that compute gradients, each on its own rows; a pair (min, max) uses "
            "as many as there are free slots, see minWorkers",
            get="The number of workers, or the maximum if it may change.",
        ),
        Row(
            "minWorkers",
            0,
            integer(0),
            "int",
            "minimum number of workers for elastic training, which uses up to numWorkers as "
            "executors come and go; 0 for always numWorkers",
            get="The minimum number of workers, or 0 if the number is fixed.",
            decides=False,
        ),
        Row(
            "numPs",
            1,
            integer(0),
            "int",
            "number of tasks that only hold the variables; with 0 the workers hold them",
            get="The number of tasks that only hold variables.",
        ),
        Row(
            "inProcess",
            AUTO,
            in_process,
            "str",
            "whether a single worker trains inside its Spark task, without sockets or separate "
            "processes: 'auto' (if Spark Connect's Python workers may not create these), 'always' "
            "or 'never'",
            get="When the worker trains in its Spark task: `auto`, `always` or `never`.",
            takes="str | bool",
            see="[locked-down compute](deploy/locked_down.md)",
            decides=False,
        ),
        Row(
            "workerResources",
            {},
            worker_resources,
            "dict[str, Any]",
            "resources of each worker's task: amounts by name ({'cpus': 2, 'gpu': 1}) or a "
            "pyspark.resource.ResourceProfile; {} for those in Spark's settings",
            get="The resources of a worker's task, as a dictionary.",
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
            "resources of each parameter server's task, in the form of workerResources; the "
            "servers then have a Spark job of their own, and may not request GPUs",
            get="The resources of a parameter server's task, as a dictionary.",
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
            "number of tasks that each worker's copy of the model is split across, at the "
            "tf.device(sparkflow.spark.stage(i)) in model_fn, or automatically if it has none",
            get="The number of tasks per copy of the model.",
            decides=False,
        ),
        Row(
            "microBatches",
            0,
            integer(0),
            "int",
            "with modelParallel: number of parts of a batch that are in the pipeline at the same "
            "time; 0 for two per task",
            get="The number of micro-batches per batch.",
            decides=False,
        ),
        Row(
            "batchSize",
            128,
            integer(1),
            "int",
            "rows per step of each worker",
            get="The number of rows per step of each worker.",
        ),
        Row(
            "epochs",
            1,
            integer(1),
            "int",
            "number of passes over the rows",
            get="The number of passes over the rows.",
            decides=False,
        ),
        Row(
            "maxSteps",
            0,
            integer(0),
            "int",
            "number of steps, summed over all workers, after which training ends even if epochs "
            "remain; 0 for no limit",
            get="The maximum number of steps, or 0.",
            decides=False,
        ),
        Row(
            "syncMode",
            "async",
            choice(*SYNC_MODES),
            "str",
            "how gradients are combined: 'async' (each worker applies its own), 'sync' (averaged "
            "over all workers at each step), 'ssp' (async, but no worker may be more than "
            "staleness steps ahead), 'allreduce' (sync among the workers, without parameter "
            "servers)",
            get="How gradients are combined: `async`, `sync`, `ssp` or `allreduce`.",
        ),
        Row(
            "staleness",
            3,
            integer(0),
            "int",
            "with syncMode='ssp': maximum number of steps that a worker may be ahead of the "
            "slowest",
            get="The maximum number of steps that a worker may be ahead.",
        ),
        Row(
            "backupWorkers",
            0,
            integer(0),
            "int",
            "with syncMode='sync': number of workers whose gradients a step does not wait for",
            get="The number of workers that a step does not wait for.",
        ),
        Row(
            "gradientAccumulation",
            1,
            integer(1),
            "int",
            "number of batches whose gradients are summed before they are applied",
            get="The number of batches per update.",
        ),
        Row(
            "seed",
            42,
            integer(0),
            "int",
            "determines the order of the rows, random splits, and random ops without a seed of "
            "their own",
            get="The random seed.",
        ),
        Row(
            "modelParams",
            {},
            json_dict,
            "dict[str, Any]",
            "passed to model_fn as params",
            get="The dictionary that `model_fn` receives as `params`.",
        ),
    ),
)
