"""Trained models in MLflow: logged, registered and loaded, with the code and versions they need."""

from sparkflow.export.mlflow.writing import log_model, save_model

__all__ = ["log_model", "save_model"]
