"""How MLflow loads a model that `MlflowReporter` logged: `mlflow.pyfunc.load_model`.

Neither Spark nor pickled code is needed, only sparkflow in the environment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.export import InferenceModel


class PyfuncModel:
    """What MLflow calls.

    Args:
        model: The model.
        batch_size: Rows per run of the graph.
    """

    def __init__(self, model: InferenceModel, batch_size: int = 4096) -> None:
        self._predictor = model.predictor()
        self._batch_size = batch_size

    def predict(self, model_input: Any, params: Any = None) -> dict[str, Any]:
        """Predictions by name.

        Args:
            model_input: As the model's signature says: an array [batch, n], a dictionary of arrays
                by input, or a pandas frame with a column per number or per input.
            params: Not used.
        """
        signature = self._predictor.signature
        if signature.named:
            values: Any = {each.name: _rows(model_input[each.name]) for each in signature.inputs}
        elif hasattr(model_input, "to_numpy"):
            values = model_input.to_numpy()
        else:
            values = np.asarray(model_input)
        return dict(self._predictor.predict(values, self._batch_size))


def _rows(column: Any) -> Any:
    """A column of a frame as an array; arrays as they are."""
    if not hasattr(column, "to_numpy"):
        return column
    values = column.to_numpy()
    if values.dtype == object and len(values) and not isinstance(values[0], (str, bytes)):
        return np.stack([np.asarray(value) for value in values])
    return values


def _load_pyfunc(path: str) -> PyfuncModel:
    """Called by MLflow with the folder of the model's files."""
    return PyfuncModel(InferenceModel.load(path))
