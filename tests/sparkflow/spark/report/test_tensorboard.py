"""TensorBoard's directory, as found by its own reader."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
import pytest

from sparkflow.spark.report.event_sinks import RemoteSink, open_sink
from sparkflow.spark.report.tensorboard import TensorBoardReporter
from sparkflow_runtime.events.event_file import read_events, read_scalars
from sparkflow_runtime.protos.event_pb2 import Event, SessionLog
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from tests.sparkflow.spark.report.runs import Clock, FakeRun, whole_run


def _reporter(directory: Path, clock: Clock, **options: Any) -> TensorBoardReporter:
    return TensorBoardReporter(str(directory), "fit", clock=clock, wall_clock=clock, **options)


def _scalars(folder: Path) -> Mapping[str, list[tuple[int, float]]]:
    (file,) = folder.iterdir()
    return read_scalars(file)


def _texts(folder: Path) -> dict[str, str]:
    (file,) = folder.iterdir()
    return {
        value.tag: value.tensor.string_val[0].decode()
        for event in read_events(file)
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "text"
    }


def test_a_run_has_scalars_graph_and_parameters(tmp_path: Path) -> None:
    clock = Clock()
    graph = GraphDef(node=[NodeDef(name="loss", op="Const")])
    reporter = _reporter(tmp_path, clock, graph_def=graph)
    whole_run(clock, reporter)
    (run,) = tmp_path.iterdir()
    assert run.name.endswith("-fit")
    train = _scalars(run / "train")
    assert len(train["loss"]) == 40
    assert train["loss"][0] == (0, 4.0)
    assert train["loss"][-1] == (39, 2.0)
    assert train["epoch_loss"] == [(0, 4.0), (1, 2.0)]
    assert train["rows_per_second"][-1][1] == pytest.approx(12.0)
    assert train["wait_share"][-1][1] == pytest.approx(0.1)
    validation = _scalars(run / "validation")
    assert validation == {"loss": [(20, 5.0), (40, 3.0)], "accuracy": [(20, 0.5), (40, 0.75)]}
    assert '| modelParams | {"units": [8, 4]} |' in _texts(run / "train")["parameters"]
    (file,) = (run / "train").iterdir()
    assert [e.graph_def for e in read_events(file) if e.graph_def] == [graph.SerializeToString()]


def test_it_is_there_while_training_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    reporter = _reporter(tmp_path, clock)
    run = FakeRun(clock, reporter)
    run.begin()
    run.step(3.0)
    clock.now += 2
    run.step(2.0)
    (folder,) = tmp_path.iterdir()
    assert _scalars(folder / "train")["loss"] == [(0, 3.0), (1, 2.0)]
    run.end()


def test_many_steps_are_written_as_means(tmp_path: Path) -> None:
    clock = Clock()
    reporter = _reporter(tmp_path, clock)
    run = FakeRun(clock, reporter)
    run.begin()
    losses = np.arange(1000.0)
    run.step(*losses)
    run.end()
    (folder,) = tmp_path.iterdir()
    written = _scalars(folder / "train")["loss"]
    assert len(written) == 50
    assert written[0] == (19, losses[:20].mean())
    assert written[-1] == (999, losses[-20:].mean())


def test_runs_in_one_directory_do_not_mix(tmp_path: Path) -> None:
    clock = Clock()
    reporters = [_reporter(tmp_path, clock) for _ in range(3)]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 3
    assert names[1:] == [f"{names[0]}-2", f"{names[0]}-3"]
    for reporter in reporters:
        reporter.on_close()


def test_a_restart_has_tensorboard_forget_what_is_done_again(tmp_path: Path) -> None:
    clock = Clock()
    reporter = _reporter(tmp_path, clock)
    run = FakeRun(clock, reporter)
    run.begin()
    run.step(3.0, 2.0, 1.0)
    reporter.on_restart("executor 1 lost")
    again = FakeRun(clock, reporter)
    again.begin()
    again.step(2.5)
    again.end()
    (folder,) = tmp_path.iterdir()
    (file,) = (folder / "train").iterdir()
    events = list(read_events(file))
    starts = [e.step for e in events if e.session_log.status == SessionLog.START]
    assert starts == [0]
    assert _scalars(folder / "train")["loss"] == [(0, 3.0), (1, 2.0), (2, 1.0), (0, 2.5)]
    assert _texts(folder / "train")["restarts"] == "executor 1 lost"


def test_far_away_each_file_is_written_once(tmp_path: Path) -> None:
    clock = Clock()
    sink = RemoteSink(pyarrow.fs.LocalFileSystem(), str(tmp_path / "run"), clock)
    sizes: dict[str, int] = {}
    for step in range(200):
        clock.now += 1
        sink.add(Event(step=step, wall_time=clock.now))
        sink.flush()
        for file in (tmp_path / "run").iterdir():
            assert sizes.setdefault(file.name, file.stat().st_size) == file.stat().st_size
    sink.close()
    files = sorted((tmp_path / "run").iterdir())
    assert 5 < len(files) < 30
    steps = [e.step for file in files for e in read_events(file) if not e.file_version]
    assert steps == list(range(200))
    assert all(next(read_events(file)).file_version for file in files)


def test_paths_of_other_file_systems(tmp_path: Path) -> None:
    reporter = TensorBoardReporter(f"file://{tmp_path}/logs", "fit")
    assert reporter.run_directory.startswith(f"{tmp_path}/logs/")
    reporter.on_close()
    with pytest.raises(ValueError, match="gopher"):
        open_sink("gopher://somewhere/run")
