"""Where models that MLflow was given before they carried their code say that their loader is."""

from sparkflow.export.mlflow.pyfunc import load as _load_pyfunc

__all__ = ["_load_pyfunc"]
