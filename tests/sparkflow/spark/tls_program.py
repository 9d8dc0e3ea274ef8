"""Run by test_tls.py as a separate program: executors in processes, not at a loopback address.

    python tls_program.py FOLDER

Trains with the default `tls`, with an event log and Spark's UI, and prints one JSON object: which
ports are open to strangers, and which files, arguments, environments and pages contain a secret.
"""

import json
import os
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparkflow.spark import SparkTrainer, encryption
from sparkflow.spark.control.callbacks import Callback, Update
from support import java
from support.listening import is_closed, listening, tree, where
from support.spark_models import linear

CANARY = "a name that event logs have"


def own_address() -> str:
    """Returns an address of this machine that is not loopback. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def is_task(pid: int) -> bool:
    return b"sparkflow.spark.cluster.child" in Path(f"/proc/{pid}/cmdline").read_bytes()


class Look(Callback):
    """Inspects everything during training."""

    def __init__(self, spark: SparkSession, folder: Path, secrets: list[bytes]) -> None:
        self.spark = spark
        self.folder = folder
        self.secrets = secrets
        self.before = listening(os.getpid())
        self.found: dict[str, Any] = {}

    def on_steps(self, update: Update) -> None:
        if self.found:
            return
        pids = set(tree(os.getpid()))
        tasks = {place for pid in pids if is_task(pid) for place in listening(pid)}
        driver = listening(os.getpid()) - self.before
        opened = [place for place in tasks | driver if not is_closed(place)]
        leaks = where(self.secrets, pids, [self.folder])
        conf = str(self.spark.sparkContext.getConf().getAll()).encode()
        pages = [
            urllib.request.urlopen(f"{self.spark.sparkContext.uiWebUrl}/{page}/").read()  # noqa: S310
            for page in ("jobs", "stages", "environment", "SQL", "executors")
        ]
        leaks += ["conf or UI" for text in (conf, *pages) if any(s in text for s in self.secrets)]
        ports = {"tasks": len(tasks), "driver": len(driver)}
        self.found = {"ports": ports, "open": opened, "leaks": leaks}


def main() -> None:
    folder = Path(sys.argv[1])
    events = folder / "events"
    events.mkdir()
    address = own_address()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    spark = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.driver.host", address)
        .config("spark.driver.bindAddress", address)
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", events.as_uri())
        .config("spark.eventLog.compress", "true")
        .config("spark.eventLog.compression.codec", "zstd")
        .config("spark.app.name", CANARY)
        .config("spark.executor.extraJavaOptions", java.options())
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    made: list[Any] = []
    real = encryption.new_credentials

    def remembered(tls: bool) -> Any:
        made.append(real(tls))
        secrets.append(made[-1].token.encode())
        return made[-1]

    secrets = [b"PRIVATE KEY"]
    from sparkflow.spark.launch import classic

    classic.new_credentials = remembered
    rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(400)]
    df = spark.createDataFrame(rows, "features array<double>, label double")
    look = Look(spark, folder, secrets)
    trainer = SparkTrainer(
        model_fn=linear,
        numWorkers=2,
        numPs=1,
        batchSize=20,
        epochs=40,
        progress=False,
        callbacks=[look],
    )
    model = trainer.fit(df)
    spark.stop()
    assert len(made) == 1
    look.found["leaks"] += where(secrets, [], [folder])
    look.found["events"] = where([CANARY.encode()], [], [events])
    print(json.dumps({**look.found, "loss": [model.history.loss[0], model.history.loss[-1]]}))


if __name__ == "__main__":
    main()
