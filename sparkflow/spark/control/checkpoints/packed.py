"""A snapshot as bytes to send between processes: the content of a checkpoint, without a store.

Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.checkpoints.store import (
    manifest_of,
    plain_tensor,
    snapshot_of,
    tensor_value,
)
from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint.tensors import pack_tensors, unpack_tensors

TENSORS, STATE = "snapshot", "state"
"""The two parts: all arrays as safetensors, and the rest as JSON."""
PARTS: Final = (TENSORS, STATE)


def pack(snapshot: Snapshot) -> dict[str, bytes]:
    """Packs a snapshot.

    Raises:
        SparkTrainingError: A variable holds strings.
    """
    tensors = snapshot.tensors()
    listed = {
        name: {"dtype": dtypes.as_dtype(value.dtype).name, "shape": list(value.shape)}
        for name, value in tensors.items()
    }
    packed = pack_tensors({name: plain_tensor(name, value) for name, value in tensors.items()})
    return {TENSORS: packed, STATE: json.dumps(manifest_of(snapshot, listed, {})).encode()}


def unpack(parts: Mapping[str, bytes]) -> Snapshot:
    """Unpacks a snapshot.

    Raises:
        DataLossError: The tensors are damaged.
    """
    manifest = json.loads(parts[STATE])
    tensors = unpack_tensors(parts[TENSORS], "the state of a training that goes on elsewhere")
    values = {name: tensor_value(tensors[name], at) for name, at in manifest["tensors"].items()}
    return snapshot_of(manifest, values)
