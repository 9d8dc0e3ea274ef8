"""Run by test_object_store.py as a separate program, since a JVM inherits its environment.

Trains on Parquet files on an S3 server, with checkpoints and event files there: undisturbed, and
repeatedly printing "cut", which makes the test cut all connections to the server. Prints the
outcome as JSON.
"""

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from sparkflow.spark import Callback, SparkTrainer
from sparkflow_runtime.files import system, whole
from support.spark_models import linear


class Cuts(Callback):
    """Requests a cut every few steps, and at every checkpoint."""

    def __init__(self) -> None:
        self.cuts = 0
        self.checkpoints = 0

    def on_steps(self, update: Any) -> None:
        self.cuts += 1
        print("cut", flush=True)

    def on_checkpoint(self, path: str) -> None:
        self.checkpoints += 1
        print("cut", flush=True)


def main() -> None:
    x = np.random.default_rng(0).normal(size=(200, 2))
    columns = {"a": x[:, 0], "b": x[:, 1], "label": x @ [1.0, -2.0]}
    for part in range(2):
        buffer = io.BytesIO()
        rows = {key: values[part::2].astype(np.float32) for key, values in columns.items()}
        pq.write_table(pa.table(rows), buffer, row_group_size=25)
        whole.write_whole(f"s3://bucket/rows/part-{part}.parquet", buffer.getvalue())
    spark = (
        SparkSession.builder.master("local[4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def fit(folder: str, *callbacks: Callback) -> Any:
        model = SparkTrainer(
            model_fn=linear,
            featuresCol=["a", "b"],
            syncMode="sync",
            numWorkers=2,
            epochs=100,
            batchSize=10,
            seed=1,
            progress=False,
            checkpointDir=f"s3a://bucket/{folder}",
            checkpointSteps=100,
            logDir=f"s3a://bucket/{folder}-logs",
            callbacks=callbacks,
        ).fitOnParquet("s3://bucket/rows")
        return model.inference_model.variables["layer/kernel"].ravel().tolist()

    calm = fit("calm")
    cutting = Cuts()
    cut = fit("cut", cutting)
    print(
        json.dumps(
            {
                "calm": calm,
                "cut": cut,
                "again": fit("cut"),  # what is complete is read from its checkpoint
                "cuts": cutting.cuts,
                "checkpoints": cutting.checkpoints,
                "events": len(system.list_directory("s3a://bucket/cut-logs")),
            }
        ),
        flush=True,
    )
    spark.stop()


if __name__ == "__main__":
    main()
