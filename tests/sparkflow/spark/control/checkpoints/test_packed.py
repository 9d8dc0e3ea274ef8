"""Snapshots transferred between processes."""

import numpy as np

from sparkflow.spark.control.checkpoints.packed import PARTS, pack, unpack
from sparkflow.spark.control.checkpoints.snapshot import Position, Snapshot, WorkerState
from sparkflow_runtime import dtypes


def test_a_snapshot_arrives_as_it_was() -> None:
    narrow = np.arange(6, dtype=np.float32).astype(dtypes.bfloat16.as_numpy_dtype)
    snapshot = Snapshot(
        step=7,
        position=Position((7, 7), (5, 5), {"seed": 3}),
        shared={
            "w": narrow.reshape(2, 3),
            "step": np.int64(7),  # type: ignore[dict-item]
            "complex": np.array([1 + 2j], np.complex64),
            "flag": np.array(True),
        },
        best={"w": np.float32([1, 2])},
        workers=(WorkerState(b"abc", {"sum": np.float64([0.5])}), WorkerState(b"")),
        history={"steps": 7},
        early_stopping={"best": 0.25},
        notes={"fit": {"name": "f", "restarts": 1}},
    )
    parts = pack(snapshot)
    assert set(parts) == set(PARTS)
    found = unpack(parts)
    for name, value in snapshot.tensors().items():
        other = found.tensors()[name]
        assert other.dtype == np.asarray(value).dtype, name
        np.testing.assert_array_equal(other, value, err_msg=name)
    for name in ("step", "position", "history", "early_stopping", "notes"):
        assert getattr(found, name) == getattr(snapshot, name)
