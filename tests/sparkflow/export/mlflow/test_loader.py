"""The loader stored next to a model's code."""

import runpy
import sys
from pathlib import Path

import numpy as np

from sparkflow.export import InferenceModel
from sparkflow.export.mlflow.carried import LOADER, write_code


def test_a_process_that_has_sparkflow_loads_with_that_one(
    classifier: InferenceModel, tmp_path: Path
) -> None:
    classifier.save(tmp_path / "files")
    before = list(sys.path)
    code = runpy.run_path(write_code(tmp_path)[0], run_name=LOADER)
    model = code["_load_pyfunc"](str(tmp_path / "files"), {"allowed_ops": []})
    assert sys.path == before
    found = model.predict(np.float32([[1, 2, 3]]))
    assert found["word"].tolist() == ["yes"]
