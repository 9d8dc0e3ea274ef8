"""What `SparkCluster.dataset` accepts instead of a DataFrame, and what it rejects."""

import pytest

from sparkflow.spark import SparkCluster


def test_what_is_no_table_is_refused(spark, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    deltalake = pytest.importorskip("deltalake")
    cluster = SparkCluster(spark)
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "empty.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet")
    folder = str(tmp_path / "delta")
    deltalake.write_deltalake(folder, pa.table({"x": [1.0, None]}))

    def dataset(given, columns="x", **more):
        return cluster.dataset(given, columns, batch_size=2, **more)

    with pytest.raises(ValueError, match="for tables; a DataFrame was given"):
        dataset(spark.range(3), "id", version=1)
    with pytest.raises(ValueError, match=r"empty\.parquet.*: no rows"):
        dataset(tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match=r"text\.parquet is not a Parquet file"):
        dataset(tmp_path / "text.parquet")
    with pytest.raises(FileNotFoundError):
        dataset(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is not a table: dataset reads tables of Delta Lake"):
        dataset(tmp_path / "nowhere", version=1)
    with pytest.raises(ValueError, match="7"):
        dataset(folder, version=7)
    with pytest.raises(ValueError, match="x"):
        dataset(folder)  # a null
    with pytest.raises(ValueError, match="columns"):
        dataset(folder, "y")
    with pytest.raises(TypeError, match=r"SparkCluster\.dataset takes a Spark DataFrame"):
        dataset({"x": [1.0]})
