"""What the simulation knows: a model's step, an interpreter's and a network's speed."""

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
        text: What is trained.
        examples: Rows of a batch.
        compute_s: Time from the parameters to the gradients.
        pull_bytes: What a worker gets from all parameter servers together.
        push_bytes: What it sends to all of them.
        apply_s: Time to apply one worker's gradients, by one process.
        sparse: Whether gradients are rows of a table; workers' rows are rarely the same.
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
    """What a message costs a processor at each of its ends.

    Attributes:
        message_s: Whatever its size.
        bytes_per_s: So many bytes take a second more.
    """

    message_s: float
    bytes_per_s: float

    def cost_s(self, size_bytes: float) -> float:
        """The time of one message at one end."""
        return self.message_s + size_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class Network:
    """What lies between tasks; each task has a full-duplex port of its own, the core never blocks.

    Attributes:
        text: Its name.
        bytes_per_s: Of one port, each way.
        latency_s: From port to port.
    """

    text: str
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Stragglers:
    """How computing times vary: log-normal with the model's mean, and now and then a long one.

    Attributes:
        sigma: Of the logarithm.
        pause_share: The share of steps with a pause (another process, garbage, a slow disk).
        pause_factor: How many times as long such a step takes.
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
    """What was measured, see `scaling.measuring`.

    Attributes:
        models: By name.
        channel: Between two processes of one machine.
        source: Where and when.
    """

    models: dict[str, Model]
    channel: Channel
    source: str

    def save(self) -> None:
        """Writes them beside this module."""
        CONSTANTS.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def load() -> Constants:
        """Those of the last measurement."""
        found: dict[str, Any] = json.loads(CONSTANTS.read_text(encoding="utf-8"))
        models = {name: Model(**each) for name, each in found["models"].items()}
        return Constants(models, Channel(**found["channel"]), found["source"])
