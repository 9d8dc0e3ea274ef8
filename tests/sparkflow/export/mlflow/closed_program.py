"""Loads a model of MLflow, and prints the predictions for its example.

    python -I -S closed_program.py FOLDER MODEL

The folder, with the packages that may be imported, replaces an environment's site-packages.
"""

import json
import sys
from typing import Any


def main(folder: str, model: str) -> None:
    """Loads it and predicts."""
    sys.path.append(folder)
    for absent in ("pyspark", "pyarrow", "onnx", "sparkflow"):
        try:
            __import__(absent)
        except ModuleNotFoundError:
            continue
        raise AssertionError(f"{absent} can be imported")
    import mlflow

    loaded: Any = mlflow.pyfunc.load_model(model)
    found = loaded.predict(loaded.input_example)
    origin = str(sys.modules["sparkflow"].__file__)
    assert "sparkflow_code.zip" in origin, origin
    print(json.dumps({name: value.tolist() for name, value in found.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
