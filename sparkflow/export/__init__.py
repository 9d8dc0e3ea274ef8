"""Trained models as open files, and running them without Spark and without `model_fn`.

>>> from sparkflow.export import InferenceModel
>>> model = InferenceModel.load("/models/flights")  # doctest: +SKIP
>>> model.predict(features)["prediction"]  # doctest: +SKIP
"""

import sparkflow
from sparkflow.export.inference_model import InferenceModel
from sparkflow.export.predictor import Predictor
from sparkflow.export.signature import DENSE, RAGGED, SPARSE, Input, Output, Signature
from sparkflow.other_package import refuse_its_front_end

refuse_its_front_end(sparkflow)

__all__ = [
    "DENSE",
    "RAGGED",
    "SPARSE",
    "InferenceModel",
    "Input",
    "Output",
    "Predictor",
    "Signature",
]
