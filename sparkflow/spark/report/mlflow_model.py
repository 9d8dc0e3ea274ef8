"""The loader module named in old MLflow models, which did not yet contain their code."""

from sparkflow.export.mlflow.pyfunc import load as _load_pyfunc

__all__ = ["_load_pyfunc"]
