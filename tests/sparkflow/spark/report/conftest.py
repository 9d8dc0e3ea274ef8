"""MLflow with a database of its own."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def mlflow_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """MLflow with a database, which takes seconds to make."""
    folder = tmp_path_factory.mktemp("mlflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow = pytest.importorskip("mlflow")
        pytest.importorskip("sqlalchemy")
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        yield mlflow, folder
        mlflow.set_tracking_uri(before)


@pytest.fixture
def mlflow(mlflow_database: tuple[Any, Path], request: pytest.FixtureRequest) -> Iterator[Any]:
    """MLflow with an experiment for this test."""
    mlflow, folder = mlflow_database
    name = request.node.name
    location = (folder / name).as_uri()
    mlflow.set_experiment(experiment_id=mlflow.create_experiment(name, location))
    yield mlflow
    while mlflow.active_run() is not None:
        mlflow.end_run()
