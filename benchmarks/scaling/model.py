"""The inputs of the simulation: a model's step, message costs and network speed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CONSTANTS = Path(__file__).with_name("constants.json")


@dataclass(frozen=True, slots=True)
class Model:
    """One training step of a worker.

    Attributes:
        text: The description of the model.
        examples: Rows per batch.
        compute_s: Time from the parameters to the gradients.
        pull_bytes: Bytes that a worker receives from all parameter servers together.
        push_bytes: Bytes that it sends to all of them.
        apply_s: Time to apply one worker's gradients, by one process.
        sparse: Whether gradients are rows of a table, which rarely coincide between workers.
    """

    text: str
    examples: int
    compute_s: float
    pull_bytes: int
    push_bytes: int
    apply_s: float
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Channel:
    """The processor time of a message at each of its ends.

    Attributes:
        message_s: Seconds independent of the size.
        bytes_per_s: The number of bytes that take an additional second.
    """

    message_s: float
    bytes_per_s: float

    def cost_s(self, size_bytes: float) -> float:
        """Returns the time of one message at one end."""
        return self.message_s + size_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class Network:
    """The network between tasks: each task has its own full-duplex port, the core never blocks.

    Attributes:
        text: Its name.
        bytes_per_s: The rate of one port, in each direction.
        latency_s: The latency from port to port.
    """

    text: str
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Stragglers:
    """The variation of computing times: log-normal with the model's mean, with occasional pauses.

    Attributes:
        sigma: The standard deviation of the logarithm.
        pause_share: The fraction of steps with a pause (another process, garbage collection, a slow
            disk).
        pause_factor: The factor by which such a step is longer.
    """

    sigma: float = 0.1
    pause_share: float = 0.002
    pause_factor: float = 5.0


NONE = Stragglers(0.0, 0.0)
USUAL = Stragglers()
NETWORKS = (
    Network("10 Gbit/s", 10e9 / 8, 50e-6),
    Network("25 Gbit/s", 25e9 / 8, 25e-6),
    Network("100 Gbit/s", 100e9 / 8, 10e-6),
)


@dataclass(frozen=True, slots=True)
class Constants:
    """The measurements, see `scaling.measuring`.

    Attributes:
        models: The models by name.
        channel: The channel between two processes on one machine.
        source: Where and when they were made.
    """

    models: dict[str, Model]
    channel: Channel
    source: str

    def save(self) -> None:
        """Writes them next to this module."""
        CONSTANTS.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def load() -> Constants:
        """Returns those of the last measurement."""
        found: dict[str, Any] = json.loads(CONSTANTS.read_text(encoding="utf-8"))
        models = {name: Model(**each) for name, each in found["models"].items()}
        return Constants(models, Channel(**found["channel"]), found["source"])
