"""Run by `spark-submit --py-files` with only the wheel: see test_py_files.py."""

from pyspark.sql import SparkSession


def model_fn(features, labels, mode):
    """Linear regression."""
    import sparkflow as tf

    prediction = tf.squeeze(tf.layers.dense(features, 1), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": prediction})
    loss = tf.losses.mean_squared_error(labels, prediction)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
    """Fits, transforms, and prints where the packages come from."""
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    import sparkflow  # the session has put the wheel on the path
    from sparkflow.spark import SparkTrainer

    df = spark.range(20).selectExpr("cast(id as double) / 20 as x", "cast(id as double) as y")
    model = SparkTrainer(
        model_fn=model_fn, featuresCol=["x"], labelCol="y", numWorkers=1, numPs=1, progress=False
    ).fit(df)
    print("rows", model.transform(df).count())
    there = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sparkflow").__file__)
    print("driver", sparkflow.__file__)
    print("executor", there.first())
    spark.stop()


if __name__ == "__main__":
    main()
