"""The Spark job, and what is shown of it."""

from __future__ import annotations

from typing import Final

from sparkflow.spark.endpoints import require_interface
from sparkflow.spark.params.converters import (
    auto_or_boolean,
    boolean,
    integer,
    ports,
    seconds,
    text,
)
from sparkflow.spark.params.row import Group, Row

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
            needed="names what MLflow is given, and needs mlflow=True",
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
