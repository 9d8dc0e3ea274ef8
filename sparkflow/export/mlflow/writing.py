"""Writing a model as MLflow's: into a folder, into a run, into a registry."""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sparkflow.export.inference_model import InferenceModel
from sparkflow.export.mlflow.carried import LOADER, requirements, write_code
from sparkflow.export.mlflow.pyfunc import ALLOWED_OPS
from sparkflow.export.mlflow.signature import example, mlflow_signature
from sparkflow.graph.nodes.reach import Allowed
from sparkflow.version import SPARKFLOW_VERSION


def log_model(
    model: Any,
    name: str = "model",
    *,
    registered_model_name: str | None = None,
    input_example: Any = None,
    allowed_ops: Allowed = None,
    **kwargs: Any,
) -> Any:
    """Adds a trained model to the active run of MLflow, which is made if there is none.

    The model loads with `mlflow.pyfunc` where only its own requirements are installed: it carries
    the code of sparkflow. Spark is not needed.

    Args:
        model: What a `fit` returned or `load` read: a model of Spark, or an `InferenceModel`.
        name: Its name in the run; its path, in MLflow before 3.
        registered_model_name: The model of the registry that it becomes a version of.
        input_example: What to show as an example, as the model takes it; None for a made-up row.
        allowed_ops: Op types of its graph that may reach beyond it when MLflow loads it, or "all";
            as for `InferenceModel.load`.
        **kwargs: Further arguments of `mlflow.pyfunc.log_model`.

    Returns:
        What `mlflow.pyfunc.log_model` returns: its `model_uri` loads the model.

    Raises:
        ImportError: MLflow is not installed.
        TypeError: `model` is no such model.
    """
    import mlflow

    known = inspect.signature(mlflow.pyfunc.log_model).parameters
    place = {"name" if "name" in known else "artifact_path": name}
    with _arguments(model, input_example, allowed_ops, kwargs) as given:
        return mlflow.pyfunc.log_model(
            **place, registered_model_name=registered_model_name, **given
        )


def save_model(
    model: Any,
    path: str | Path,
    *,
    input_example: Any = None,
    allowed_ops: Allowed = None,
    **kwargs: Any,
) -> None:
    """Writes a trained model into a folder, as one that MLflow loads and serves.

    Args:
        model: As for `log_model`.
        path: The folder, which must not exist or be empty.
        input_example: As for `log_model`.
        allowed_ops: As for `log_model`.
        **kwargs: Further arguments of `mlflow.pyfunc.save_model`.

    Raises:
        ImportError, TypeError: As `log_model`.
    """
    import mlflow

    with _arguments(model, input_example, allowed_ops, kwargs) as given:
        mlflow.pyfunc.save_model(path=os.fspath(path), **given)


@contextlib.contextmanager
def _arguments(
    model: Any, input_example: Any, allowed_ops: Allowed, kwargs: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """What both functions of MLflow take, while the files that it copies are there."""
    found = getattr(model, "inference_model", model)
    if not isinstance(found, InferenceModel):
        raise TypeError(
            f"A trained model of sparkflow is needed, got {type(model).__name__}; of a pipeline, "
            "its last stage"
        )
    shown = example(found.signature) if input_example is None else input_example
    listed = allowed_ops if isinstance(allowed_ops, str) else list(allowed_ops or ())
    with tempfile.TemporaryDirectory(prefix="sparkflow-mlflow-") as folder:
        files, code = Path(folder) / "files", Path(folder) / "code"
        code.mkdir()
        found.save(files)
        yield {
            "loader_module": LOADER,
            "data_path": str(files),
            "code_paths": write_code(code),
            "signature": mlflow_signature(found.signature),
            "input_example": shown,
            "pip_requirements": requirements(),
            "model_config": {ALLOWED_OPS: listed},
            "metadata": {"sparkflow": SPARKFLOW_VERSION},
            **kwargs,
        }
