"""Trained models as open files, and running them without Spark and without `model_fn`.

>>> from sparkflow.export import InferenceModel
>>> model = InferenceModel.load("/models/flights")  # doctest: +SKIP
>>> model.predictor()(features)["prediction"]  # doctest: +SKIP
"""

from sparkflow.export.inference_model import InferenceModel, Output, Predictor, Signature

__all__ = ["InferenceModel", "Output", "Predictor", "Signature"]
