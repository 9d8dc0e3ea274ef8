"""The Spark job and its reporting."""

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
    "Timeouts, restarts, logs and encryption of the job.",
    (
        Row(
            "startTimeout",
            120.0,
            seconds,
            "float",
            "seconds that Spark has to start all tasks, and that tasks may wait for their rows "
            "without progress",
            get="The seconds allowed for starting the tasks.",
            decides=False,
        ),
        Row(
            "stallTimeout",
            600.0,
            seconds,
            "float",
            "seconds without a step of any worker after which training fails with a report of "
            "which task waits for which",
            get="The seconds without a step after which training fails.",
            decides=False,
        ),
        Row(
            "maxRestarts",
            3,
            integer(0),
            "int",
            "maximum number of times that training is restarted, from the last checkpoint if "
            "there is one, after the loss of a task or executor",
            get="The maximum number of restarts.",
            decides=False,
        ),
        Row(
            "ports",
            "",
            ports,
            "str",
            "ports that the processes of the tasks and the driver listen on: a range "
            "('40000-40100'), one port, or '' for any free ones",
            get="The ports to listen on, or `''` for any.",
            decides=False,
        ),
        Row(
            "interface",
            "",
            require_interface,
            "str",
            "address that the processes of the tasks listen on: the name of an interface "
            "('eth0'), a network ('10.1.0.0/16'), or '' for the address that the driver sees",
            get="The interface or network that the tasks listen on.",
            decides=False,
        ),
        Row(
            "workerLogs",
            False,
            boolean,
            "bool",
            "whether the driver shows what tasks write to stderr, each line prefixed with the "
            "role of the task",
            get="Whether the logs of the tasks are shown.",
            decides=False,
        ),
        Row(
            "tls",
            "auto",
            auto_or_boolean,
            "str | bool",
            "whether all network traffic between the driver and the tasks is encrypted: 'auto' "
            "(if any address is not loopback), True or False",
            get="Whether traffic is encrypted: `auto`, True or False.",
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
            "whether the driver shows the progress of training: a bar in terminals, a table in "
            "notebooks",
            get="Whether progress is shown.",
            see="[seeing it train](spark_seeing.md)",
            decides=False,
        ),
        Row(
            "logDir",
            "",
            text,
            "str",
            "directory on the driver, or a URI that pyarrow can write to, for TensorBoard; each "
            "fit writes to its own folder there as it trains; empty for none",
            get="The directory for TensorBoard, or an empty string.",
            decides=False,
        ),
        Row(
            "mlflow",
            False,
            boolean,
            "bool",
            "whether parameters, metrics and the model are logged to an MLflow run of the fit, a "
            "child of the active run if there is one",
            get="Whether the fit is logged to MLflow.",
            needed="names something in MLflow, and needs mlflow=True",
            decides=False,
        ),
        Row(
            "registeredModelName",
            "",
            text,
            "str",
            "with mlflow, the name in MLflow's registry under which the trained model is "
            "registered as a new version, such as main.ml.flights in Unity Catalog; empty for "
            "none",
            get="The registered model's name in MLflow, or an empty string.",
            see="[MLflow](spark_seeing.md#mlflow)",
            decides=False,
            needs="mlflow",
        ),
    ),
)
