"""Models stored by MLflow: loaded elsewhere, registered, served."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.export.mlflow import log_model, save_model
from sparkflow.graph.nodes import reach

# MLflow and its dependencies warn of each other's deprecated names.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]


def _elsewhere(model: Path, folder: Path) -> dict[str, Any]:
    """Returns the predictions for the model's example, in a process with only its requirements.

    Args:
        model: The model.
        folder: Filled with links to what pip would install, in the versions installed here.
    """
    folder.mkdir()
    done: set[str] = set()
    todo = [Requirement(line) for line in (model / "requirements.txt").read_text().split()]
    assert all(str(each.specifier).startswith("==") for each in todo)
    while todo:
        wanted = distribution(todo.pop().name)
        if wanted.name in done:
            continue
        done.add(wanted.name)
        for top in {file.parts[0] for file in wanted.files or ()} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(str(wanted.locate_file(top)))
        needed = map(Requirement, wanted.requires or ())
        todo += [each for each in needed if not each.marker or each.marker.evaluate({"extra": ""})]
    program = Path(__file__).with_name("closed_program.py")
    ran = subprocess.run(
        [sys.executable, "-I", "-S", program, folder, model],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_a_model_loads_where_only_its_requirements_are(
    mixed: InferenceModel, tmp_path: Path
) -> None:
    mlflow = pytest.importorskip("mlflow")
    pd = pytest.importorskip("pandas")

    row = {"age": 1.5, "id": 10, "pixels": [[1.0, 2.0], [3.0, 4.0]], "title": "ä"}
    row |= {"bag": {"indices": [3, 1], "values": [1.0, 2.0]}, "words": ["a", "zz", "c"]}
    frame = pd.DataFrame([{**row, "words": [], "nums": [2.0, 0.0]}, {**row, "nums": [1.0, 1.0]}])
    save_model(mixed, tmp_path / "model", input_example=frame)
    shown = (tmp_path / "model" / "serving_input_example.json").read_text()
    mlflow.models.validate_serving_input(str(tmp_path / "model"), shown)
    found = _elsewhere(tmp_path / "model", tmp_path / "site")
    assert found == {
        "total": [26.5, 26.5],
        "embedded": [0.0, 1101.0],
        "shout": ["ä!", "ä!"],
    }


def test_a_model_is_registered_with_signature_and_example(
    mlflow: Any, classifier: InferenceModel
) -> None:
    with mlflow.start_run():
        logged = log_model(classifier, registered_model_name="main.ml.flights")
    version = mlflow.MlflowClient().get_model_version("main.ml.flights", "1")
    assert version.status == "READY"
    assert int(logged.registered_model_version) == 1
    loaded = mlflow.pyfunc.load_model("models:/main.ml.flights/1")
    assert loaded.metadata.signature.outputs.input_names()[:2] == ["prediction", "probability"]
    rows = np.float32([[1, 2, 3], [-1, 0, 2]])
    found, expected = loaded.predict(rows), classifier.predict(rows)
    for name in ("prediction", "probability", "rawPrediction", "twice"):
        assert np.array_equal(found[name], expected[name])
    assert [each.encode() for each in found["word"]] == expected["word"].tolist()


def test_ops_that_reach_are_allowed_by_the_models_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    (tmp_path / "secret").write_text("four")
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        read = tf.strings.length(tf.read_file(str(tmp_path / "secret")))
        tf.add(tf.reduce_sum(x, 1), tf.cast(read, tf.float32), name="y")
    signature = Signature.of_features("x:0", 2, (Output("prediction", "y:0", "float32", ()),))
    model = InferenceModel.build(graph.as_graph_def(), {}, signature)
    save_model(model, tmp_path / "asks")
    save_model(model, tmp_path / "says", allowed_ops=["ReadFile"])
    monkeypatch.setattr(reach, "_ours", set())  # as in a different process
    with pytest.raises(Exception, match=r"allowed_ops=\['ReadFile'\]"):
        mlflow.pyfunc.load_model(str(tmp_path / "asks"))
    given = {"allowed_ops": ["ReadFile"]}
    rows = np.float32([[1, 2]])
    for loaded in (
        mlflow.pyfunc.load_model(str(tmp_path / "asks"), model_config=given),
        mlflow.pyfunc.load_model(str(tmp_path / "says")),
    ):
        assert loaded.predict(rows)["prediction"].tolist() == [7.0]


def test_a_pipeline_is_refused_with_its_name() -> None:
    pytest.importorskip("mlflow")
    with pytest.raises(TypeError, match="got dict; of a pipeline, its last stage"):
        log_model({})


ROW = {
    "age": 1.5,
    "id": 10,
    "pixels": [[1.0, 2.0], [3.0, 4.0]],
    "title": "x",
    "bag": {"indices": [1, 3], "values": [2.0, 1.0]},
    "words": ["a", "zz", "c"],
    "nums": [1.0, 1.0],
}
BODIES = (
    {"dataframe_split": {"columns": list(ROW), "data": [list(ROW.values())]}},
    {"dataframe_records": [ROW]},
)
ANSWER = {"predictions": {"total": [26.5], "embedded": [1101.0], "shout": ["x!"]}}


def test_requests_are_answered_as_a_server_does(
    mixed: InferenceModel, classifier: InferenceModel, tmp_path: Path
) -> None:
    mlflow = pytest.importorskip("mlflow")
    server = pytest.importorskip("mlflow.pyfunc.scoring_server")
    for name, model in (("mixed", mixed), ("dense", classifier)):
        save_model(model, tmp_path / name)

    def answer(name: str, body: Any) -> Any:
        loaded = mlflow.pyfunc.load_model(str(tmp_path / name))
        schema = loaded.metadata.get_input_schema()
        found = server.invocations(json.dumps(body), "application/json", loaded, schema)
        assert found.status == 200
        return json.loads(found.response)

    for body in BODIES:
        assert answer("mixed", body) == ANSWER
    rows = [[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]
    expected = classifier.predict(np.float32(rows))["probability"]
    for given in ({"inputs": rows}, {"dataframe_split": {"columns": [0, 1, 2], "data": rows}}):
        found = answer("dense", given)["predictions"]["probability"]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.nightly
def test_a_model_is_served_on_loopback(mixed: InferenceModel, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    save_model(mixed, tmp_path / "mixed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = "mlflow models serve --env-manager local --host 127.0.0.1 --workers 1"
    server = subprocess.Popen(
        [sys.executable, "-m", *command.split(), "-p", str(port), "-m", tmp_path / "mixed"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # MLflow starts uvicorn by name.
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/ping", server)
        url = f"http://127.0.0.1:{port}/invocations"
        for body in BODIES:
            assert _post(url, body) == ANSWER
        with pytest.raises(urllib.error.HTTPError, match="400"):
            _post(url, {"dataframe_records": [{"age": 1.5}]})
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def _wait_for(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while True:
        assert server.poll() is None
        assert time.monotonic() < deadline
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  it is http
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)  # a different program: there is nothing else to wait for


def _post(url: str, body: Any) -> Any:
    request = urllib.request.Request(  # noqa: S310  it is http
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  it is http
        return json.loads(answer.read())
