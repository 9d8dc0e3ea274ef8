"""Spark Connect, against a real server from the pip package.

The client and the server are separate programs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.standalone import standalone
from support.tls_front import tls_front

pytest.importorskip("grpc_status", reason="Spark Connect's client: pip install pyspark[connect]")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1000)]

_PROGRAM = Path(__file__).with_name("connect_program.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def remote(folder: Path, connect_server: Any) -> Iterator[str]:
    with connect_server(folder, {}) as address:
        yield address


@pytest.fixture(scope="module")
def found(remote: str, folder: Path, run_client: Any) -> dict[str, dict[str, Any]]:
    return run_client(_PROGRAM, remote, folder, "learns", "fails", "interrupted", "live", "quiet")


@pytest.fixture(scope="module")
def found_by_night(remote: str, folder: Path, run_client: Any) -> dict[str, dict[str, Any]]:
    steps = ["resumes", "without_barrier", "too_many", "records", "callback_fails", "exact"]
    steps.append("elastic")
    return run_client(_PROGRAM, remote, folder, *steps)


def test_a_model_is_trained_used_saved_and_read_again(found: dict[str, dict[str, Any]]) -> None:
    step = found["learns"]
    assert "failed" not in step, step["failed"]
    assert step["error"] < 0.05
    assert step["same"]
    assert step["epochs"] == 30
    assert step["loss"][1] < 0.01 * step["loss"][0]


@pytest.mark.nightly
def test_models_that_do_not_travel_with_a_query(remote: str, folder: Path, run_client: Any) -> None:
    step = run_client(_PROGRAM, remote, folder, "large")["large"]
    assert "failed" not in step, step["failed"]
    assert step["bytes"] > 5_000_000
    assert step["error"] < 1.5 * step["loss"][1] < 0.5 * step["loss"][0]
    assert step["same"]


@pytest.mark.nightly
def test_a_server_that_asks_for_a_token_behind_tls(
    tmp_path: Path, connect_server: Any, run_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in hosted Spark: TLS is terminated in front of the server."""
    settings = {"spark.connect.authenticate.token": "secret"}
    with (
        connect_server(tmp_path, settings) as plain,
        tls_front(tmp_path, int(plain.rpartition(":")[2])) as (port, certificate),
    ):
        monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(certificate))
        remote = f"sc://127.0.0.1:{port}/;use_ssl=true;token="
        with pytest.raises(AssertionError, match="UNAUTHENTICATED"):
            run_client(_PROGRAM, f"{remote}another", tmp_path, "learns")
        found = run_client(_PROGRAM, f"{remote}secret", tmp_path, "learns", "live")
    for step in found.values():
        assert "failed" not in step, step["failed"]
    assert found["learns"]["error"] < 0.05
    assert found["live"]["stopped"] == "enough"


@pytest.mark.nightly
def test_tasks_meet_without_a_barrier_stage(found_by_night: dict[str, dict[str, Any]]) -> None:
    step = found_by_night["without_barrier"]
    assert "failed" not in step, step["failed"]
    assert "set checkpointDir, or the Spark setting spark.sparkflow.sharedDir" in step["refused"]
    assert step["started"].startswith("an ordinary stage that waits for all tasks: ")
    assert step["loss"] < 0.1
    assert step["left"] == []


@pytest.mark.nightly
def test_training_resumes_from_its_checkpoints(found_by_night: dict[str, dict[str, Any]]) -> None:
    assert found_by_night["resumes"].get("epochs") == 3, found_by_night["resumes"]


def test_the_first_failure_reaches_the_client(found: dict[str, dict[str, Any]]) -> None:
    step = found["fails"]
    assert step.get("type") == "InvalidArgumentError", step
    assert "worker" in step["text"]


@pytest.mark.nightly
def test_too_few_slots_are_said_at_once(found_by_night: dict[str, dict[str, Any]]) -> None:
    assert "21 task slots" in found_by_night["too_many"].get("text", ""), found_by_night["too_many"]


def test_an_interrupted_fit_leaves_no_process(found: dict[str, dict[str, Any]]) -> None:
    step = found["interrupted"]
    assert step.get("left") == 0, step


@pytest.mark.nightly
def test_the_tfrecord_source_works(found_by_night: dict[str, dict[str, Any]]) -> None:
    step = found_by_night["records"]
    assert step.get("schema") == "struct<label:float,x:array<float>>", step
    assert step["rows"] == 400


def test_a_callback_sees_first_steps_and_ends_training(
    found: dict[str, dict[str, Any]],
) -> None:
    step = found["live"]
    assert "failed" not in step, step["failed"]
    assert step["first"] == 0
    assert step["updates"] > 1
    assert step["stopped"] == "enough"
    assert 200 < step["steps"][0] == step["steps"][1]
    assert step["values"] == {"layer/kernel": [3, 1], "layer/bias": [1]}
    assert step["heard"] == ["begin", "end"]
    assert step["own_history"]


def test_a_callback_finds_the_cluster_quiet_at_epochs(found: dict[str, dict[str, Any]]) -> None:
    step = found["quiet"]
    assert "failed" not in step, step["failed"]
    assert step["epochs"] == 3
    assert step["last"]
    assert step["differ"]


@pytest.mark.nightly
def test_the_number_of_workers_follows_the_free_slots(
    found_by_night: dict[str, dict[str, Any]],
) -> None:
    step = found_by_night["elastic"]
    assert "failed" not in step, step["failed"]
    assert step["heard"] == [1, 2]
    (change,) = step["resized"]
    assert (change["before"], change["workers"]) == (1, 2)
    assert 0 < change["pause_s"] < 120
    assert step["restarts"] == []
    assert step["steps"][0] == step["steps"][1]
    assert step["epochs"] == 15
    assert step["apart"] < 1e-5


@pytest.mark.nightly
def test_what_a_callback_raises_ends_training(found_by_night: dict[str, dict[str, Any]]) -> None:
    step = found_by_night["callback_fails"]
    assert step.get("text") == "a callback of the user's", step
    assert step["left"] == 0


@pytest.mark.nightly
def test_without_a_slot_more_callbacks_hear_at_the_end(
    found_by_night: dict[str, dict[str, Any]],
) -> None:
    step = found_by_night["exact"]
    assert "failed" not in step, step["failed"]
    assert step["heard"] == ["begin", "end"]


@pytest.mark.nightly
def test_fits_beside_each_other_on_slots_that_are_just_enough(
    remote: str, folder: Path, run_client: Any
) -> None:
    step = run_client(_PROGRAM, remote, folder, "beside")["beside"]
    assert "failed" not in step, step["failed"]
    # Each fit has a leading process and two workers.
    assert step["processes"] == 6
    assert max(step["losses"]) < 0.01


@pytest.mark.nightly
def test_after_a_lost_machine_training_goes_on_with_slots_that_are_just_enough(
    tmp_path: Path, connect_server: Any, run_client: Any
) -> None:
    with standalone(tmp_path, workers=3, cores=1) as master:
        settings = {"spark.master": master, "spark.executor.memory": "600m"}
        with connect_server(tmp_path, settings) as remote:
            step = run_client(_PROGRAM, remote, tmp_path, "executor_lost")["executor_lost"]
    assert "failed" not in step, step["failed"]
    assert step["heard"] == ["restart", "end"]
    assert step["epochs"] == 2000


@pytest.mark.nightly
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_machine_comes_and_another_one_is_lost(
    tmp_path: Path,
    connect_server: Any,
    run_client: Any,
    remote: str,
    folder: Path,
    dynamic: bool,
) -> None:
    settings = {"spark.executor.memory": "600m", "spark.executor.cores": "1"}
    if dynamic:
        settings |= {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        }
    name = "machine_comes_and_goes"
    with (
        standalone(tmp_path, workers=1, cores=2, memory="2g") as master,
        connect_server(tmp_path, {"spark.master": master, **settings}) as elsewhere,
    ):
        step = run_client(_PROGRAM, elsewhere, tmp_path, name)[name]
    assert "failed" not in step, step["failed"]
    assert step["heard"] == [1, 2, "kills", 1]
    assert step["started"].startswith("an ordinary stage" if dynamic else "a barrier stage")
    (change,) = step["resized"]
    assert (change["before"], change["workers"]) == (1, 2)
    assert len(step["restarts"]) == 1
    assert step["epochs"] == 90
    fixed = run_client(_PROGRAM, remote, folder, "two_workers")["two_workers"]
    # From the first epoch on; in the end everything that can be learnt is learnt.
    np.testing.assert_allclose(step["losses"], fixed["losses"], rtol=1e-3, atol=1e-9)
    for variable, value in fixed["variables"].items():
        np.testing.assert_allclose(step["variables"][variable], value, rtol=1e-5, atol=1e-6)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_bad_row(remote: str, folder: Path, run_client: Any) -> None:
    step = run_client(_PROGRAM, remote, folder, "bad_rows", timeout_s=1700)["bad_rows"]
    assert "failed" not in step, step["failed"]
    assert step["wrong"] == []
    assert step["tries"] > 30
