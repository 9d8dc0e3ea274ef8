"""How MLflow loads a model: each model has a copy of this file next to its code.

It stands alone: it is imported before sparkflow is, and where there is none but the model's.
"""

import sys
from pathlib import Path
from typing import Any

CODE = "sparkflow_code.zip"


def _load_pyfunc(path: str, model_config: "dict[str, Any] | None" = None) -> Any:
    """Called by MLflow with the folder of the model's files.

    In a process that has imported sparkflow already, that one loads the model.
    """
    if "sparkflow" not in sys.modules:
        carried = Path(__file__).with_name(CODE)
        if carried.is_file():
            sys.path.insert(0, str(carried))
    from sparkflow.export.mlflow.pyfunc import load

    return load(path, model_config)
