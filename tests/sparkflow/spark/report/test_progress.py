"""The progress bar and the TensorBoard scalars, without a training."""

from pathlib import Path

import pytest

from sparkflow.spark.report import progress
from sparkflow.spark.report.history import TrainingHistory
from sparkflow.spark.report.progress import ProgressBar, ScalarLog
from sparkflow_runtime.events.event_file import read_scalars


@pytest.fixture
def history() -> TrainingHistory:
    return TrainingHistory(rows_per_epoch=6)


def _train(history: TrainingHistory, *losses: float) -> None:
    for loss in losses:
        history.loss.append(loss)
        history.rows.append(3)
        history.worker.append(0)


def test_the_bar_tells_what_it_waits_for_and_then_the_steps(
    history: TrainingHistory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_REFRESH_S", 0.0)
    with ProgressBar(history, total_rows=12, shown=True) as bar:
        bar.say("waiting for 2 of 2 tasks")
        bar.say("waiting for 2 of 2 tasks")
        _train(history, 4.0, 2.0)
        bar.update()
        _train(history, 2.0)
    shown = capsys.readouterr().err
    assert shown.count("waiting for 2 of 2 tasks") == 1
    assert "9.00/12.0" in shown
    # The shown loss follows slowly: 0.95 of what it was, 0.05 of the step's.
    assert shown.rstrip().endswith("step 3, loss 3.805]")


def test_no_bar_is_no_bar(history: TrainingHistory, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(history, 12, shown=False) as bar:
        bar.say("waiting")
        _train(history, 1.0)
        bar.update()
    assert capsys.readouterr().err == ""


def test_scalars_are_written_once_each(history: TrainingHistory, tmp_path: Path) -> None:
    with ScalarLog(history, str(tmp_path)) as log:
        _train(history, 4.0, 2.0)
        log.update()
        _train(history, 1.0)
    found = read_scalars(next(tmp_path.iterdir()))
    assert found == {
        "loss": [(0, 4.0), (1, 2.0), (2, 1.0)],
        "rows": [(0, 3.0), (1, 3.0), (2, 3.0)],
    }


def test_no_directory_is_no_file(
    history: TrainingHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ScalarLog(history, ""):
        _train(history, 4.0)
    assert list(tmp_path.iterdir()) == []
