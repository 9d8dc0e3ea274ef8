"""Running a model in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkflow.export.freeze import freeze_graph
from sparkflow.export.signature import DENSE, Exported, Signature
from sparkflow.export.values import cut_rows, feed_arrays
from sparkflow_runtime.master.client import SessionClient, open_session
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef

_FROZEN_BYTES = 64 << 20
"""Larger variables stay variables: a protobuf message holds 2 GB at most, and makes copies."""


class Predictor:
    """Runs a model on numpy arrays. Safe to use from several threads; close it after use.

    Args:
        model: The model.
        device: Where it runs, such as `/device:GPU:0`; empty for where the runtime puts it. Ops
            that the device has no kernel for, such as those of strings, run on the CPU.
        threads: How many threads kernels and BLAS use; 0 leaves the process's setting. It counts
            for the whole process.

    Attributes:
        signature: Of the model.
    """

    def __init__(self, model: Exported, device: str = "", threads: int = 0) -> None:
        self.signature: Signature = model.signature
        self._names = [output.name for output in model.signature.outputs]
        large = {
            name: value for name, value in model.variables.items() if value.nbytes > _FROZEN_BYTES
        }
        small = {name: value for name, value in model.variables.items() if name not in large}
        graph_def = freeze_graph(model.graph_def, small, kept=large)
        loads = [_assignment(graph_def, name, value) for name, value in large.items()]
        if device:
            for node in graph_def.node:
                node.device = device
        config = ConfigProto(allow_soft_placement=True, intra_op_parallelism_threads=threads)
        self._session: SessionClient = open_session(config=config)
        try:
            self._session.extend(graph_def)
            for (fed, target), value in zip(loads, large.values(), strict=True):
                self._session.run([], {fed: value}, [target])
            if model.signature.initializers:
                self._session.run([], {}, model.signature.initializers)
            self._run = self._session.make_callable(
                model.signature.fetches, model.signature.feeds, []
            )
        except BaseException:
            self._session.close()
            raise

    def __call__(self, values: Any) -> dict[str, npt.NDArray[Any]]:
        """The predictions for a batch of rows, by name; see `InferenceModel.predict`."""
        return self.run(feed_arrays(self.signature, values)[0])

    def run(self, arrays: Sequence[npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """The predictions for arrays in the order of `signature.feeds`, which are not checked."""
        found = self._run(*arrays)
        return {name: np.asarray(value) for name, value in zip(self._names, found, strict=True)}

    def predict(self, values: Any, batch_size: int) -> dict[str, npt.NDArray[Any]]:
        """As `__call__`, with `batch_size` rows at a time where that gives the same.

        Values that cannot be cut are run at once, and so are rows of lists if the width of a
        prediction depends on the longest of them.
        """
        arrays, rows = feed_arrays(self.signature, values)
        if rows <= batch_size:
            return self.run(arrays)
        parts: list[Mapping[str, npt.NDArray[Any]]] = []
        all_dense = all(each.kind == DENSE for each in self.signature.inputs)
        for start in range(0, rows, batch_size):
            if all_dense:
                parts.append(self.run([array[start : start + batch_size] for array in arrays]))
                continue
            cut = cut_rows(self.signature, values, start, start + batch_size)
            if cut is None:
                return self.run(arrays)
            parts.append(self(cut))
            if any(parts[-1][name].shape[1:] != parts[0][name].shape[1:] for name in self._names):
                return self.run(arrays)
        return {name: np.concatenate([part[name] for part in parts]) for name in self._names}

    def close(self) -> None:
        """Ends the session. May be called more than once."""
        self._session.close()


def _assignment(graph_def: GraphDef, name: str, value: npt.NDArray[Any]) -> tuple[str, str]:
    """Adds what loads a variable to the graph: the tensor to feed and the node to run."""
    variable = next(node for node in graph_def.node if node.name == name)
    fed, target = f"{name}/sparkflow_load/value", f"{name}/sparkflow_load"
    placeholder = NodeDef(name=fed, op="Placeholder")
    placeholder.attr["dtype"].CopyFrom(variable.attr["dtype"])
    for size in value.shape:
        placeholder.attr["shape"].shape.dim.add(size=size)
    assign = NodeDef(name=target, op="Assign", input=[name, fed])
    assign.attr["T"].CopyFrom(variable.attr["dtype"])
    graph_def.node.extend([placeholder, assign])
    return f"{fed}:0", target
