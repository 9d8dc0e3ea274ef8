"""DataFrames whose rows are on the workers of a cluster, as datasets of graphs there."""

import os
import signal
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

import sparkflow as tf
from sparkflow.spark import SparkCluster, SparkTrainingError
from sparkflow.spark.errors import LostTaskError
from sparkflow.spark.programs import cluster_dataset, spark_cluster
from support.processes import left_after

WAIT_S = 60


@pytest.fixture(params=["local", "exchanged"])
def way(request, monkeypatch):
    """Files on this machine, and the exchange by which rows reach remote executors."""
    if request.param == "exchanged":
        for module in (cluster_dataset, spark_cluster):
            monkeypatch.setattr(module, "is_local", lambda df: False)
    return request.param


@pytest.fixture
def exchanged(monkeypatch):
    for module in (cluster_dataset, spark_cluster):
        monkeypatch.setattr(module, "is_local", lambda df: False)


@pytest.fixture
def cluster(spark, child_processes):
    with SparkCluster(spark, numWorkers=2, numPs=1) as made, tf.Graph().as_default():
        yield made
    assert left_after(child_processes) == []


@pytest.fixture
def df(spark):
    """1,000 rows in five partitions, one of which is empty; `label` = features · (1, -2, 0.5)."""
    rows = spark.range(0, 1000, 1, 5).where("id < 400 or id >= 600")
    rows = rows.unionByName(spark.range(400, 600, 1, 1))
    value = F.col("id") / 500.0 - 1.0
    features = F.array(F.sin(F.col("id")), F.cos(F.col("id") * 2), value)
    df = rows.withColumn("features", features)
    label = F.col("features")[0] - 2 * F.col("features")[1] + F.col("features")[2] / 2
    return df.withColumn("label", label)


def session_on(cluster):
    return tf.Session(cluster.target, credentials=cluster.credentials)


def on_worker(rows, task):
    with tf.device(f"/job:worker/task:{task}"):
        return rows[task].make_one_shot_iterator().get_next()


def all_of(session, batch):
    found = []
    while True:
        try:
            found.append(session.run(batch))
        except tf.errors.OutOfRangeError:
            return found


def test_in_graph_replicas_train_on_their_shares(cluster, df, way):
    rows = cluster.dataset(df, ["features", "label"], batch_size=50, shuffle=True, epochs=None)
    assert rows.worker_rows == (500, 500)
    assert rows.num_batches == (10, 10)
    with tf.device(tf.train.replica_device_setter(cluster=cluster.spec)):
        w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
    assert not cluster.is_running  # counting does not need servers
    losses = []
    for task in range(len(rows)):
        features, labels = on_worker(rows, task)
        assert features.shape.as_list() == [None, 3]
        with tf.device(f"/job:worker/task:{task}"):
            predicted = tf.matmul(features, w)[:, 0]
            losses.append(tf.reduce_mean(tf.square(predicted - labels)))
    loss = tf.add_n(losses) / len(rows)
    step = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with session_on(cluster) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(100):
            _, last = session.run([step, loss])
        np.testing.assert_allclose(session.run(w)[:, 0], [1, -2, 0.5], atol=1e-2)
    assert last < 1e-4


def test_each_row_is_on_one_worker_once_and_in_order(cluster, df, way):
    rows = cluster.dataset(df, "id", batch_size=64)
    other = cluster.dataset(df.where("id < 3"), {"b": "label", "a": "id"}, batch_size=2)
    shares, batches = [on_worker(rows, task) for task in range(2)], on_worker(other, 0)
    assert shares[0].dtype == tf.int64
    with session_on(cluster) as session:
        found = [all_of(session, share) for share in shares]
        few = all_of(session, batches)
    assert [[len(batch) for batch in share] for share in found] == [[64] * 7 + [52]] * 2
    merged = np.stack([np.concatenate(share) for share in found], axis=1).ravel()
    # The DataFrame's own order: its second part comes after the first.
    expected = [i for i in range(1000) if not 400 <= i < 600] + list(range(400, 600))
    assert merged.tolist() == expected
    assert [sorted(batch) for batch in few] == [["a", "b"]]
    assert few[0]["a"].tolist() == [0, 2]


def test_initializable_iterators_and_methods_of_datasets(cluster, df, way):
    rows = cluster.dataset(df.where("id < 20"), ["id", "label"], batch_size=5, shuffle=True)
    with tf.device("/job:worker/task:1"):
        dataset = rows[1].map(lambda number, label: number * 10).prefetch(1)
        iterator = dataset.make_initializable_iterator()
        batch = iterator.get_next()
    with session_on(cluster) as session:
        passes = []
        for _ in range(2):
            session.run(iterator.initializer)
            passes.append(np.concatenate(all_of(session, batch)).tolist())
    assert [sorted(each) for each in passes] == [list(range(10, 200, 20))] * 2
    assert passes[0] != passes[1]


def test_all_kinds_of_columns(cluster, spark, way):
    made = [
        (i, f"t{i}", ["w"] * (i % 3), Vectors.sparse(100, [i], [1.0 + i]), [[i, 1], [2, 3]])
        for i in range(8)
    ]
    df = spark.createDataFrame(made, ["n", "text", "words", "thin", "square"]).coalesce(1)
    columns = {"text": "text", "words": "words", "thin": "thin", "square": "square", "n": ["n"]}
    rows = cluster.dataset(df, columns, batch_size=4, inputShapes={"square": [4]})
    batch = on_worker(rows, 1)
    assert batch["thin"].get_shape().as_list() == [None, 100]
    with session_on(cluster) as session:
        found = session.run(batch)
    assert found["text"].tolist() == [b"t1", b"t3", b"t5", b"t7"]
    assert found["words"].indices.tolist() == [[0, 0], [2, 0], [2, 1], [3, 0]]
    assert found["words"].dense_shape.tolist() == [4, 2]
    assert found["thin"].indices.tolist() == [[0, 1], [1, 3], [2, 5], [3, 7]]
    assert found["thin"].values.tolist() == [2, 4, 6, 8]
    assert found["square"].tolist() == [[i, 1, 2, 3] for i in (1, 3, 5, 7)]
    assert found["n"].tolist() == [[1], [3], [5], [7]]


def test_names_may_hold_dots(cluster, df, way):
    rows = cluster.dataset(df, {"a.b": "label"}, batch_size=100)
    batch = on_worker(rows, 0)
    with session_on(cluster) as session:
        assert session.run(batch)["a.b"].shape == (100,)


def test_more_workers_than_rows(cluster, df, way):
    rows = cluster.dataset(df.where("id = 7"), "id", batch_size=2, epochs=None)
    assert rows.worker_rows == (1, 0)
    one, none = (on_worker(rows, task) for task in range(2))
    with session_on(cluster) as session:
        assert [session.run(one).tolist() for _ in range(3)] == [[7], [7], [7]]
        assert all_of(session, none) == []


def between_graph():
    """The function `counted`, pickled by value, since the tasks cannot import this module."""

    def counted(rows, steps):
        """A between-graph program: returns what each worker read in a session on its own server."""
        import json
        import os

        import sparkflow as tf

        config = json.loads(os.environ["TF_CONFIG"])
        job, index = config["task"]["type"], config["task"]["index"]
        spec = tf.train.ClusterSpec(config["cluster"])
        server = tf.train.Server(spec, job_name=job, task_index=index, insecure=True)
        if job == "ps":
            server.join()
        device = tf.train.replica_device_setter(
            cluster=spec, worker_device=f"/job:worker/task:{index}"
        )
        with tf.Graph().as_default(), tf.device(device):
            step = tf.train.get_or_create_global_step()
            seen = tf.get_variable("seen", [], tf.int64, initializer=tf.zeros_initializer())
            ids = rows[index].make_one_shot_iterator().get_next()
            train = tf.group(
                tf.assign_add(seen, tf.reduce_sum(ids), use_locking=True), tf.assign_add(step, 1)
            )
            hooks = [tf.train.StopAtStepHook(last_step=steps)]
            mine = []
            with tf.train.MonitoredTrainingSession(
                server.target, is_chief=index == 0, hooks=hooks
            ) as session:
                while not session.should_stop():
                    _, batch = session.run([train, ids])
                    mine += batch.tolist()
        return mine

    return counted


def test_functions_of_the_tasks_have_their_shares(spark, df, way, child_processes):
    cluster, counted = SparkCluster(spark, numWorkers=2, numPs=1), between_graph()
    rows = cluster.dataset(df.where("id < 100"), "id", batch_size=10)
    found = cluster.run(counted, rows, 1000)
    assert [len(each) for each in found] == [50, 50]
    assert sorted(chain(*found)) == list(range(100))
    # Also inside other arguments.
    assert cluster.run(lambda given: len(given["of"][0]), {"of": [rows]}) == [2, 2]
    rows.close()
    rows.close()
    with pytest.raises(ValueError, match="was closed: its rows are gone"):
        cluster.run(counted, rows, 1000)
    with pytest.raises(
        ValueError, match="is distributed over 2 workers, but the function runs on 1"
    ):
        SparkCluster(spark, numWorkers=1).run(counted, rows, 1000)
    assert left_after(child_processes) == []


@pytest.mark.parametrize(
    ("column", "error", "text"),
    [
        ("absent", ValueError, r"There is no column 'absent'.*\(columns names it\)"),
        ("when", TypeError, "The features column 'when' is map<string,int>"),
        ("hole", ValueError, "Nulls cannot"),
        ("nan", ValueError, "NaNs cannot"),
        ("ragged", ValueError, "lengths"),
    ],
)
def test_what_tensors_cannot_hold_is_refused_before_anything_starts(
    cluster, df, way, column, error, text
):
    wrong = (
        df.withColumn("when", F.create_map(F.lit("a"), F.lit(1)))
        .withColumn("hole", F.when(F.col("id") != 70, F.col("label")))
        .withColumn("nan", F.when(F.col("id") != 70, F.col("label")).otherwise(float("nan")))
        .withColumn("ragged", F.slice("features", 1, F.pmod(F.col("id"), F.lit(2)).cast("int") + 1))
    )
    with pytest.raises(error, match=text):
        cluster.dataset(wrong, ["id", column], batch_size=4)
    assert not cluster.is_running


def test_invalid_rows_can_be_left_out_or_filled(cluster, df, way):
    holes = df.where("id < 10").withColumn("hole", F.when(F.col("id") != 4, F.col("id")))
    skipped = cluster.dataset(holes, "hole", batch_size=8, handleInvalid="skip")
    filled = cluster.dataset(holes, "hole", batch_size=8, handleInvalid="fill", fillValue=-1)
    assert sum(skipped.worker_rows) == 9
    batches = [on_worker(each, task) for each in (skipped, filled) for task in range(2)]
    with session_on(cluster) as session:
        one, two, three, four = session.run(batches)
    assert sorted([*one, *two]) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert sorted([*three, *four]) == [-1, 0, 1, 2, 3, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be 1 or more, got 0"),
        ({"batch_size": 2.5}, TypeError, "batch_size must be a whole number, got 2.5"),
        ({"batch_size": 1, "epochs": -1}, ValueError, "epochs must be 1 or more, got -1"),
        ({"batch_size": 1, "columns": []}, TypeError, "columns must be a column"),
        ({"batch_size": 1, "columns": {}}, TypeError, "columns must have names"),
        ({"batch_size": 1, "columns": ["id", "id"]}, ValueError, "names a column twice"),
        ({"batch_size": 1, "columns": [["id"]]}, TypeError, "columns must be a column"),
        ({"batch_size": 1, "handleInvalid": "drop"}, ValueError, "handleInvalid"),
        (
            {"batch_size": 1, "df": [1, 2]},
            TypeError,
            "SparkCluster.dataset takes a Spark DataFrame",
        ),
    ],
)
def test_arguments_that_make_no_sense(spark, df, given, error, text):
    with pytest.raises(error, match=text):
        SparkCluster(spark, numWorkers=2).dataset(**{"df": df, "columns": "id", **given})


def test_rows_of_others_are_not_given(cluster, df):
    rows = cluster.dataset(df, "id", batch_size=4)
    with pytest.raises(IndexError, match="There is no worker 2: there are 2"):
        rows[2]
    assert len(list(rows)) == 2
    with tf.device("/job:worker/task:0"):
        wrong = rows[1].make_one_shot_iterator().get_next()
    with tf.device("/job:ps/task:0"):
        elsewhere = rows[1].make_one_shot_iterator().get_next()
    with session_on(cluster) as session:
        with pytest.raises(tf.errors.NotFoundError, match="to worker 1, but this is worker 0"):
            session.run(wrong)
        with pytest.raises(tf.errors.NotFoundError, match="hosts no rows"):
            session.run(elsewhere)


def test_a_dataset_that_is_made_while_the_cluster_runs(cluster, spark, df):
    cluster.start()
    rows = cluster.dataset(df, "id", batch_size=500)
    with session_on(cluster) as session:
        assert len(session.run(on_worker(rows, 1))) == 500
        rows.close()
        with pytest.raises(tf.errors.NotFoundError, match="are gone: the dataset or its cluster"):
            session.run(on_worker(rows, 1))
    with SparkCluster(spark, numWorkers=4) as full:
        cluster.stop()
        full.start()
        with pytest.raises(SparkTrainingError, match=r"4 tasks take all 4 slots.*local\[5\]"):
            full.dataset(df, "id", batch_size=500)


def test_rows_cannot_follow_a_cluster_that_runs_elsewhere(cluster, df, exchanged):
    cluster.start()
    with pytest.raises(SparkTrainingError, match="make datasets before the first use of cluster"):
        cluster.dataset(df, "id", batch_size=500)


def process_of(task, processes):
    for process in processes:
        if f"SPARKFLOW_TASK={task}".encode() in Path(f"/proc/{process}/environ").read_bytes():
            return process
    raise AssertionError(f"no process of {task}")


def test_rows_come_again_with_a_cluster_that_is_made_again(cluster, df, way, child_processes):
    rows = cluster.dataset(df, "id", batch_size=100)
    batch = on_worker(rows, 1)
    with session_on(cluster) as session:
        before = session.run(batch)
        os.kill(process_of("worker 1", child_processes()), signal.SIGKILL)
        deadline = time.monotonic() + WAIT_S
        while cluster.is_running and time.monotonic() < deadline:
            time.sleep(0.05)
    with pytest.raises(LostTaskError, match="worker task 1"):
        cluster.check()
    cluster.stop()
    with session_on(cluster) as session:
        np.testing.assert_array_equal(session.run(batch), before)


def test_nothing_is_left(spark, df, way, tmp_path_factory):
    context = spark.sparkContext._jsc
    cached = len(context.getPersistentRDDs())
    local = Path(spark.sparkContext.getConf().get("spark.local.dir"))
    with SparkCluster(spark, numWorkers=1) as cluster:
        cluster.dataset(df, "id", batch_size=100)
    assert len(context.getPersistentRDDs()) == cached
    assert list(local.rglob("sparkflow-rows-*")) == []


def read_all(cluster, rows):
    batches = [on_worker(rows, task) for task in range(len(rows))]
    with session_on(cluster) as session:
        return [all_of(session, batch) for batch in batches]


def test_rows_of_tables_need_no_dataframe(cluster, tmp_path):
    pa, deltalake = pytest.importorskip("pyarrow"), pytest.importorskip("deltalake")
    table = pa.table({"id": range(90), "x": [number / 8 for number in range(90)]})
    folder = str(tmp_path / "delta")
    deltalake.write_deltalake(folder, table.slice(0, 50))
    deltalake.write_deltalake(folder, table.slice(50), mode="append")
    deltalake.DeltaTable(folder).delete("id >= 80")
    now = cluster.dataset(folder, {"id": "id", "x": "x"}, batch_size=16)
    first = cluster.dataset(deltalake.DeltaTable(folder, version=0), "id", batch_size=16)
    assert now.worker_rows == (40, 40)
    assert first.worker_rows == (25, 25)
    deltalake.DeltaTable(folder).delete("id < 70")  # versions are pinned
    found = [
        row
        for batches in read_all(cluster, now)
        for batch in batches
        for row in zip(batch["id"].tolist(), batch["x"].tolist(), strict=True)
    ]
    assert sorted(found) == [(number, number / 8) for number in range(80)]
    ids = np.concatenate([part for each in read_all(cluster, first) for part in each])
    assert sorted(ids.tolist()) == list(range(50))


def test_rows_of_parquet_files(cluster, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"x": [day + 0.5] * 7}), tmp_path / f"day={day}" / "a.parquet")
    rows = cluster.dataset(tmp_path, ["day", "x"], batch_size=4)
    found = [
        pair
        for batches in read_all(cluster, rows)
        for days, values in batches
        for pair in zip(days.tolist(), values.tolist(), strict=True)
    ]
    assert sorted(found) == [(1, 1.5)] * 7 + [(2, 2.5)] * 7
