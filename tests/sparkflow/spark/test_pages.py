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


def run(page: str, **names: object) -> dict[str, object]:
    """Runs all Python blocks of a page one after the other; returns the names they have made."""
    text = (ROOT / page).read_text()
    names["__name__"] = "example"
    for match in re.finditer(r"^```python\n(.+?)^```", text, re.DOTALL | re.MULTILINE):
        lines_before = "\n" * text.count("\n", 0, match.start(1))  # errors name the page's line
        exec(compile(lines_before + match[1], ROOT / page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)  # three fits; 15 s where the machine is quiet, minutes where it is not
def test_the_readme(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    names = run("README.md")
    printed = [float(each) for each in re.findall(r"^0\.\d+$", capsys.readouterr().out, re.M)]
    assert len(printed) == 2  # areas under the ROC curve
    assert min(printed) > 0.6
    assert isinstance(names["model_fn"].__globals__["tf"], type(tf))
