"""The notebooks of `examples/`, executed from top to bottom in a new kernel."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support import event_loops

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def _outputs(notebook: Any, kind: str) -> list[str]:
    """Returns the output of cells with MIME type `kind`."""
    return [
        output["data"][kind]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if kind in output.get("data", {})
    ]


def _printed(notebook: Any) -> str:
    return "".join(
        output["text"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "stream" and output["name"] == "stdout"
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
# The warnings are those of jupyter_client and zmq.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(
    path: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))  # cells leave files
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    with event_loops.closed_afterwards():
        client.execute()
    tables = [html for html in _outputs(notebook, "text/html") if "waiting for data" in html]
    assert len(tables) >= 1
    assert all("> done<" in html or "&nbsp; done" in html for html in tables)
    assert len(_outputs(notebook, "image/png")) >= 2
    expected = {"digits": "digits are right", "flights": "area under the ROC curve"}
    assert expected[path.stem] in _printed(notebook)
