"""The rows of a fit as an input of an MLflow run: their source, schema and number.

Nothing here runs a Spark job, whereas MLflow's own description of a DataFrame counts its rows.
"""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

_CONTEXT: Final = "mlflow.data.context"
_DELTA: Final = "delta"
_PROGRAM: Final = "program"


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The rows of a fit.

    Attributes:
        given: The DataFrame, or the path of the files.
        label: The label column, or "".
        counts: The known numbers of rows, by name.
    """

    given: DataFrame | str
    label: str
    counts: Mapping[str, int]


def log_rows(run_id: str, rows: TrainingRows) -> None:
    """Adds the rows to a run, with the context `training`; logs failures."""
    import mlflow
    from mlflow.entities import DatasetInput, InputTag

    try:
        entity = _entity(rows)
    except Exception as error:  # plans and sources differ between versions of Spark and MLflow
        _log.info("MLflow is not told of the rows of this run: %r", error)
        return
    tags = [InputTag(_CONTEXT, "training")]
    mlflow.MlflowClient().log_inputs(run_id, [DatasetInput(entity, tags)])


def _entity(rows: TrainingRows) -> Any:
    from mlflow.data.spark_dataset import SparkDataset
    from mlflow.data.spark_dataset_source import SparkDatasetSource
    from mlflow.entities import Dataset

    profile = json.dumps(dict(rows.counts))
    if isinstance(rows.given, str):
        source = SparkDatasetSource(path=rows.given)
        digest = _digest(rows.given, profile)
        return Dataset("dataset", digest, "spark", source.to_json(), None, profile)
    source = _source(rows.given)
    targets = rows.label if rows.label in rows.given.columns else None
    described = SparkDataset(df=rows.given, source=source, targets=targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that integers could have been null
        schema = described.schema
    text = json.dumps({"mlflow_colspec": schema.to_dict()}) if schema else None
    kind = source._get_source_type()
    # MLflow keeps one dataset per name and digest; autologging's has the program as its source.
    digest = _digest(described.digest, source.to_json())
    return Dataset(described.name, digest, kind, source.to_json(), text, profile)


def _digest(*parts: str) -> str:
    return hashlib.md5(" ".join(parts).encode(), usedforsecurity=False).hexdigest()[:8]


def _source(df: DataFrame) -> Any:
    """Returns the table or files that all rows come from; the program if there are several."""
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.delta_dataset_source import DeltaDatasetSource
    from mlflow.data.spark_dataset_source import SparkDatasetSource
    from mlflow.tracking.context import registry

    found = _leaves(df) if hasattr(df, "_jdf") else {("path", each, "") for each in _folders(df)}
    kind, name, layout = found.pop() if len(found) == 1 else (_PROGRAM, "", "")
    if kind != _PROGRAM:
        path, table = (name, None) if kind == "path" else (None, name)
        if layout == _DELTA:
            return DeltaDatasetSource(path=path, delta_table_name=table)
        return SparkDatasetSource(path=path, table_name=table)
    return CodeDatasetSource(registry.resolve_tags())


def _leaves(df: Any) -> set[tuple[str, str, str]]:
    """Returns for each leaf of a plan `table`, `path` or `program`, its name, `delta` or ""."""
    found = set()
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        kind = leaf.getClass().getSimpleName()
        layout = _DELTA if _DELTA in leaf.toString().lower() else ""
        if kind == "LogicalRelation" and leaf.catalogTable().isEmpty():
            roots = leaf.relation().location().rootPaths()
            found |= {("path", roots.apply(i).toString(), layout) for i in range(roots.size())}
        elif kind == "LogicalRelation":
            found.add(("table", leaf.catalogTable().get().identifier().unquotedString(), layout))
        elif kind == "HiveTableRelation":
            found.add(("table", leaf.tableMeta().identifier().unquotedString(), layout))
        elif kind == "DataSourceV2Relation" and not leaf.identifier().isEmpty():
            catalog = f"{leaf.catalog().get().name()}." if not leaf.catalog().isEmpty() else ""
            found.add(("table", catalog + leaf.identifier().get().toString(), layout))
        else:
            found.add((_PROGRAM, kind, ""))
    return found


def _folders(df: DataFrame) -> set[str]:
    return {each.rpartition("/")[0] for each in df.inputFiles()}
