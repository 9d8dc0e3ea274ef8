"""Tells on stderr where nodes go, in TensorFlow's words, for `log_device_placement`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.ir.node import Node


class PlacementLog:
    """What one session has told so far; each node is told once.

    Args:
        devices: The session's devices.
    """

    def __init__(self, devices: Sequence[DeviceSpec]) -> None:
        self._told: set[str] = set()
        gpus = [spec for spec in devices if spec.device_type != "CPU"]
        lines = [
            f"{spec.to_string()} -> device: {spec.device_index}, {spec.device_type}"
            for spec in gpus
        ]
        mapping = "Device mapping:\n" + "\n".join(lines)
        print(mapping if lines else "Device mapping: no known devices.", file=sys.stderr)

    def tell(self, nodes: Iterable[Node]) -> None:
        """Tells of nodes that were not told of before; of none that the master made."""
        for node in nodes:
            if node.name not in self._told and not node.name.startswith("_"):
                self._told.add(node.name)
                print(f"{node.name}: ({node.op}): {node.device}", file=sys.stderr)
