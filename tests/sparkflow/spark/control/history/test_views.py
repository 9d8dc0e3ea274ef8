"""Human-readable views of a history."""

from sparkflow.spark.control.history.training_history import TrainingHistory


def _history(epochs: int) -> TrainingHistory:
    history = TrainingHistory(rows_per_epoch=20, num_workers=2)
    for step in range(2 * epochs):
        history.loss.append(1.0)
        history.rows.append(10)
        history.worker.append(0)
        history.time.append(float(step + 1))
        history.count_epoch(step * 10, 4.0 / (step + 1), 10, float(step + 1), 0.0)
        history.steps += 1
        history.seconds = float(step + 1)
    return history


def test_a_line_as_spark_ml_has_it() -> None:
    history = _history(2)
    assert repr(history) == (
        "TrainingHistory: epochs=2, steps=4, loss=3 -> 1.167, rowsPerSecond=10, seconds=4.0, "
        "workers=2"
    )
    history.validation.append({"step": 2.0, "time": 2.0, "loss": 3.25, "auc": 0.75})
    history.best_step = 2
    history.restarts.append({"step": 1})
    history.stopped = "maxSteps"
    assert repr(history).endswith("restarts=1, stopped='maxSteps'")
    assert "val_loss=3.25, val_auc=0.75, best=step 2" in repr(history)
    assert repr(TrainingHistory()) == "TrainingHistory: steps=0"


def test_a_table_of_the_epochs_for_notebooks() -> None:
    history = _history(30)
    history.validation.append({"step": 2.0, "time": 2.0, "loss": 3.25, "a<b": 0.75})
    table = history._repr_html_()
    assert table.count("<tr>") == 12
    assert "\N{VERTICAL ELLIPSIS}" in table
    assert "val a&lt;b" in table
    assert ">30<" in table
    assert "<table" not in TrainingHistory()._repr_html_()


def test_a_long_history_stays_one_line() -> None:
    assert len(repr(_history(1000))) < 200
