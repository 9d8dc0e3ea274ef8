"""Prints the placement of nodes on stderr in TensorFlow's format, for `log_device_placement`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.ir.node import Node


class PlacementLog:
    """The placements that a session has printed; each node is printed once.

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
        """Prints nodes that have not been printed; skips those that the master created."""
        for node in nodes:
            if node.name not in self._told and not node.name.startswith("_"):
                self._told.add(node.name)
                print(f"{node.name}: ({node.op}): {node.device}", file=sys.stderr)
