"""The programs of README.md and of the pages about Spark, run unchanged.

Blocks of a page are one program: each begins with the names defined by those before it. Pages whose
blocks assume something, such as a `model_fn`, are in `test_page_examples.py`.
"""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparkflow as tf
from support.pages import run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FEW_FLIGHTS = {"sample(30_000,": "sample(4_000,"}
FEW_LINES = {"sample(0.1,": "sample(0.02,"}


@pytest.mark.timeout(600)  # seconds on an idle machine, minutes on a busy one
@pytest.mark.parametrize(
    ("few", "auc"), [(FEW_FLIGHTS, 0.5), pytest.param(None, 0.6, marks=pytest.mark.nightly)]
)
def test_the_readme(
    spark: SparkSession,
    few: dict[str, str] | None,
    auc: float,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = run("README.md", few)
    printed = [float(each) for each in re.findall(r"^0\.\d+$", capsys.readouterr().out, re.M)]
    assert len(printed) == 2  # areas under the ROC curve
    assert min(printed) > auc
    assert isinstance(names["model_fn"].__globals__["tf"], type(tf))


@pytest.mark.timeout(600)  # as above
@pytest.mark.parametrize(
    ("few", "auc"), [(FEW_LINES, 0.5), pytest.param(None, 0.63, marks=pytest.mark.nightly)]
)
def test_from_a_csv_file_to_a_served_model(
    spark: SparkSession, few: dict[str, str] | None, auc: float
) -> None:
    names = run("docs/from_csv.md", few)
    assert names["metrics"]["areaUnderROC"] > auc
    assert set(names["found"]) == set(names["metrics"])
    assert 0 < names["early"] < names["evening"] < 1


@pytest.mark.timeout(600)
def test_tables_that_grow(spark: SparkSession) -> None:
    names = run("docs/spark_growing_tables.md")
    known, stranger = names["model"].transform(names["strangers"]).collect()
    assert known.probability[1] < 0.5
    unseen = names["model"].inference_model.predict({"user": ["nobody"]})["probability"][0]
    assert stranger.probability[1] == pytest.approx(unseen[1], abs=1e-6)


@pytest.mark.timeout(600)
def test_tuning(spark: SparkSession, tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    storage = f"sqlite:///{tmp_path}/studies.db"
    smaller = {
        "sqlite:////home/me/studies.db": storage,
        "n_trials=50, n_jobs=2": "n_trials=2, n_jobs=2",
        "numWorkers=2, epochs=10": "numWorkers=1, epochs=2",
    }
    rows = spark.range(200).selectExpr(
        "array(cast(id % 7 AS float), cast(id % 3 AS float)) AS features", "id % 7 > 3 AS late"
    )
    df = rows.selectExpr("features", "cast(late AS int) AS late")
    run("docs/spark_tuning.md", smaller, {"df": df})
    study = optuna.load_study(study_name="late flights", storage=storage)
    assert len(study.trials) == 2
    assert study.best_value > 0.4
