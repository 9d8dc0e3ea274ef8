"""The programs of README.md and of the pages about Spark, run as they stand.

Blocks of a page are one program: each begins with the names that those before it have made.
"""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparkflow as tf

ROOT = Path(__file__).parents[3]


def run(page: str, few: tuple[str, str] | None = None) -> dict[str, object]:
    """Runs all Python blocks of a page one after the other; returns the names they have made.

    Args:
        page: Its path.
        few: What the page says of the number of rows, and what to put in its place.
    """
    text = (ROOT / page).read_text()
    if few is not None:
        assert few[0] in text
        text = text.replace(*few)
    names: dict[str, object] = {"__name__": "example"}
    for match in re.finditer(r"^```python\n(.+?)^```", text, re.DOTALL | re.MULTILINE):
        lines_before = "\n" * text.count("\n", 0, match.start(1))  # errors name the page's line
        exec(compile(lines_before + match[1], ROOT / page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FEW_FLIGHTS = ("sample(30_000,", "sample(4_000,")
FEW_LINES = ("sample(0.1,", "sample(0.02,")


@pytest.mark.timeout(600)  # seconds where the machine is quiet, minutes where it is not
@pytest.mark.parametrize(
    ("few", "auc"), [(FEW_FLIGHTS, 0.5), pytest.param(None, 0.6, marks=pytest.mark.nightly)]
)
def test_the_readme(
    spark: SparkSession,
    few: tuple[str, str] | None,
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
    spark: SparkSession, few: tuple[str, str] | None, auc: float
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
def test_tuning(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = pytest.importorskip("optuna")
    page = (ROOT / "docs/spark_tuning.md").read_text()
    storage = f"sqlite:///{tmp_path}/studies.db"
    for said, done in (
        ("sqlite:////home/me/studies.db", storage),
        ("n_trials=50, n_jobs=2", "n_trials=2, n_jobs=2"),
        ("numWorkers=2, epochs=10", "numWorkers=1, epochs=2"),
    ):
        assert said in page
        page = page.replace(said, done)
    rows = spark.range(200).selectExpr(
        "array(cast(id % 7 AS float), cast(id % 3 AS float)) AS features", "id % 7 > 3 AS late"
    )
    names: dict[str, object] = {"df": rows.selectExpr("features", "cast(late AS int) AS late")}
    for block in re.findall(r"^```python\n(.+?)^```", page, re.DOTALL | re.MULTILINE):
        exec(compile(block, "docs/spark_tuning.md", "exec"), names)
    study = optuna.load_study(study_name="late flights", storage=storage)
    assert len(study.trials) == 2
    assert study.best_value > 0.4
