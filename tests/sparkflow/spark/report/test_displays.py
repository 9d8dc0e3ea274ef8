"""Lines, bars and tables, and which of them is chosen."""

import io
import re
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import pytest

from sparkflow.spark.report import displays, terminal
from sparkflow.spark.report.displays import choose_display
from sparkflow.spark.report.live import LiveReporter
from sparkflow.spark.report.metrics_snapshot import MetricsSnapshot
from sparkflow.spark.report.notebook import NotebookDisplay, draw
from sparkflow.spark.report.terminal import LineDisplay, RichDisplay, TqdmDisplay
from support.terminals import plain
from tests.sparkflow.spark.report.runs import Clock, FakeRun, whole_run

FIGURES = MetricsSnapshot(
    epoch=2, epochs=5, step=1234, total_steps=6000, rows=60, total_rows=150, loss=0.03124,
    rows_per_s=45600.0, wait_share=0.031, elapsed_s=65.0, validation={"accuracy": 0.975},
    restarts=1, epoch_rows=({"epoch": 0, "loss": 0.5, "val_loss": 0.6, "wait_share": 0.25},),
)  # fmt: skip


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class ClosedPipe(Terminal):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    def flush(self) -> None:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.fixture
def show_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[TextIO], None]]:
    """Replaces stderr by another stream; pytest sets its own between set-up and call."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(displays, "_shell", lambda: None)
    yield lambda stream: monkeypatch.setattr(sys, "stderr", stream)
    assert terminal._screen._shown == ()


@pytest.fixture
def screen(show_on: Callable[[TextIO], None]) -> Callable[[], Terminal]:
    def show() -> Terminal:
        stream = Terminal()
        show_on(stream)
        return stream

    return show


class TestLines:
    def test_few_lines_tell_of_a_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        clock = Clock()
        whole_run(clock, LiveReporter(LineDisplay("fit", clock), clock))
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == "fit: waiting for 2 of 2 tasks"
        # 11 s of training: once after 10 s, and at the end.
        assert len(lines) == 3
        assert re.fullmatch(r"fit: epoch 2/2, step 3\d/40, loss .* rows/s", lines[1])
        assert lines[2].endswith("val loss 3, 12 rows/s, done after 0:11")

    def test_a_long_run_is_told_at_a_bounded_rate(self, capsys: pytest.CaptureFixture[str]) -> None:
        clock = Clock()
        reporter = LiveReporter(LineDisplay("fit", clock), clock)
        run = FakeRun(clock, reporter)
        run.begin()
        for _ in range(5000):
            clock.now += 10
            run.step(1.0)
        run.end()
        assert 100 < len(capsys.readouterr().err.splitlines()) < 400

    def test_nothing_is_repeated_while_one_waits(self, capsys: pytest.CaptureFixture[str]) -> None:
        clock = Clock()
        reporter = LiveReporter(LineDisplay("fit", clock), clock)
        for _ in range(8):
            clock.now += 0.5
            reporter.on_waiting("waiting for rows")
        assert capsys.readouterr().err == "fit: waiting for rows\n"


class TestNotebook:
    def test_one_output_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent: list[tuple[str, str, Any]] = []
        fake = types.ModuleType("IPython.display")
        fake.display = lambda data, raw, display_id: sent.append(("new", display_id, data))  # type: ignore[attr-defined]
        fake.update_display = lambda data, raw, display_id: sent.append(("", display_id, data))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
        monkeypatch.setitem(sys.modules, "IPython.display", fake)
        clock = Clock()
        whole_run(clock, LiveReporter(NotebookDisplay("fit"), clock))
        kinds, ids, contents = zip(*sent, strict=True)
        assert kinds[0] == "new"
        assert set(kinds[1:]) == {""}
        assert len(set(ids)) == 1
        assert len(sent) <= 2 + 11 / 0.5
        assert contents[-1]["text/plain"].endswith("done")
        assert "0.75" in contents[-1]["text/html"]

    def test_the_table_has_the_figures(self) -> None:
        table = draw("<fit>", FIGURES)
        for text in ("&lt;fit&gt;", "2 of 5", "1,234 of 6,000", "0.03124", "45,600", "0.975",
                     "3%", "1 restart", "1:05", "width: 40.0%"):  # fmt: skip
            assert text in table
        assert "<script" not in table

    def test_of_many_epochs_the_last_are_listed(self) -> None:
        epochs = tuple({"epoch": i, "loss": 1.0} for i in range(100))
        table = draw("fit", MetricsSnapshot(step=1, epoch_rows=epochs))
        assert table.count("<tr>") == 14
        assert "⋮" in table
        assert ">100<" in table


class TestTerminals:
    def test_rich_shows_bar_and_figures(self, screen: Callable[[], Terminal]) -> None:
        stream = screen()
        display = choose_display("fit")
        assert isinstance(display, RichDisplay)
        display.show(FIGURES)
        display.close(FIGURES)
        text = plain(stream.getvalue())
        assert "fit" in text
        assert "40%" in text
        assert "epoch 2/5, step 1,234/6,000, loss 0.03124, 45,600 rows/s" in text

    def test_several_fits_share_the_screen(self, screen: Callable[[], Terminal]) -> None:
        stream = screen()
        found: list[RichDisplay] = []
        threads = [
            threading.Thread(target=lambda n=n: found.append(RichDisplay(f"fit {n}")))  # type: ignore[misc]
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert terminal._screen._shown == ()
        for display in found:
            display.show(FIGURES)
        assert len(terminal._screen._shown) == 3
        for display in found:
            display.close(FIGURES)
        for number in range(3):
            assert f"fit {number}" in stream.getvalue()

    def test_tqdm_where_there_is_no_rich(
        self, screen: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stream = screen()
        monkeypatch.setattr(displays, "_has", lambda module: False)
        display = choose_display("fit")
        assert isinstance(display, TqdmDisplay)
        display.show(FIGURES)
        display.close(FIGURES)
        assert "fit:  40%|" in stream.getvalue()
        assert "loss 0.03124" in stream.getvalue()

    def test_a_terminal_that_went_away_does_not_end_training(
        self, show_on: Callable[[TextIO], None]
    ) -> None:
        for make in (RichDisplay, TqdmDisplay, LineDisplay):
            show_on(Terminal())
            clock = Clock()
            reporter = LiveReporter(make("fit"), clock)
            run = FakeRun(clock, reporter)
            run.begin()
            show_on(ClosedPipe())
            for _ in range(30):
                clock.now += 1
                run.step(1.0)
            run.end()

    def test_a_terminal_that_is_gone_from_the_beginning(
        self, show_on: Callable[[TextIO], None]
    ) -> None:
        show_on(ClosedPipe())
        for make in (RichDisplay, TqdmDisplay, LineDisplay):
            clock = Clock()
            whole_run(clock, LiveReporter(make("fit"), clock))


@pytest.mark.parametrize("term", ["", "dumb"])
def test_terminals_that_cannot_redraw_get_lines(
    term: str, screen: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen()
    monkeypatch.setenv("TERM", term)
    assert isinstance(choose_display("fit"), LineDisplay)


def test_files_and_closed_streams_get_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(displays, "_shell", lambda: None)
    monkeypatch.setenv("TERM", "xterm")
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        assert isinstance(choose_display("fit"), LineDisplay)


def test_notebooks_get_a_table_and_zeppelins_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    context = type("IPyZeppelinContext", (), {})()
    jupyter = types.SimpleNamespace(kernel=object(), user_ns={"z": 3})
    zeppelin = types.SimpleNamespace(kernel=object(), user_ns={"z": context})
    for shell, kind in ((jupyter, NotebookDisplay), (zeppelin, LineDisplay)):
        monkeypatch.setattr(displays, "_shell", lambda shell=shell: shell)
        assert isinstance(choose_display("fit"), kind)
