"""What says which rows a training has: logs of tables, values of partitions, resources of tasks."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from oracle import Target

from sparkflow.spark.data.parquet.file_layout import constant_text, constant_value
from sparkflow.spark.data.parquet.partitions import column_types, partition_values
from sparkflow.spark.data.tables.delta import delta_files
from sparkflow.spark.data.tables.iceberg import iceberg_files
from sparkflow.spark.task_resources import TaskResources

_FOLDER = Path(tempfile.mkdtemp(prefix="sparkflow-fuzz-"))
_KINDS = [
    *[pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()],
    *[pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(10, 2)],
]


def _constant(data: bytes) -> None:
    if data:
        kind = _KINDS[data[0] % len(_KINDS)]
        value = constant_value(data[1:].decode("latin-1"), kind)
        again = constant_value(constant_text(value), kind)
        assert again.equals(value) or pa.types.is_floating(kind)  # which may be no number


def _partitions(data: bytes) -> None:
    paths = ["/t" + line for line in data.decode("utf-8", "replace").split("\n")]
    values = partition_values("/t", paths)
    kinds = column_types(values.values())
    for found in values.values():
        for name, text in found.items():
            constant_value(text, kinds[name])


def _resources(data: bytes) -> None:
    again = TaskResources.of(json.loads(data))
    assert TaskResources.of(again.to_json()) == again


def _delta(data: bytes) -> None:
    log = _FOLDER / "delta/_delta_log"
    if not log.is_dir():
        log.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1.0, 2.0]}), log.parent / "a.parquet")
    (log / f"{0:020}.json").write_bytes(data)
    delta_files(str(log.parent))


def _delta_log() -> Sequence[bytes]:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _FIELDS]
    schema = json.dumps({"type": "struct", "fields": fields})
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "7d5c4e57-0f5e-4d4f-8a9a-1a2b3c4d5e6f",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": ["day"],
                "configuration": {},
                "createdTime": 1,
            }
        },
        {
            "add": {
                "path": "a.parquet",
                "partitionValues": {"day": "2026-11-24"},
                "size": 500,
                "modificationTime": 1,
                "dataChange": True,
            }
        },
    ]
    return ["\n".join(map(json.dumps, actions)).encode()]


_FIELDS = [("x", "double"), ("day", "date")]


def _iceberg(data: bytes) -> None:
    shutil.rmtree(_FOLDER / "iceberg", ignore_errors=True)
    (_FOLDER / "iceberg").mkdir()
    path = _FOLDER / "iceberg/v1.metadata.json"
    path.write_bytes(data)
    try:
        iceberg_files(str(path))
    except ValueError as error:
        if "has no snapshot" not in str(error):  # whose lists of files are Avro, and pyiceberg's
            raise


def _iceberg_metadata() -> Sequence[bytes]:
    field = {"id": 1, "name": "x", "required": False, "type": "double"}
    metadata = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": str(_FOLDER / "iceberg"),
        "last-sequence-number": 0,
        "last-updated-ms": 1,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [field]}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
    }
    return [json.dumps(metadata).encode()]


TARGETS = [
    Target("constant", _constant, lambda: [b"\x011", b"\x072026-11-24", b"\x06ab"], (ValueError,)),
    Target(
        "partition_folders",
        _partitions,
        lambda: [b"/a=1/b=x%20y/p.parquet\n/a=2/b=__HIVE_DEFAULT_PARTITION__/q.parquet"],
        (ValueError,),
    ),
    Target(
        "task_resources",
        _resources,
        lambda: [b'{"cpus": 2, "gpu": 1}', b'{"task": {"cpus": 1}, "executor": {"memory": "2g"}}'],
        (TypeError, ValueError),
    ),
    Target("delta_log", _delta, _delta_log, (ValueError, OSError)),
    Target("iceberg_metadata", _iceberg, _iceberg_metadata, (ValueError, OSError)),
]
