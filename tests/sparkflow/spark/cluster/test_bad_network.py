"""Trainings over a network that damages some of the traffic on every port: no wrong result.

Training continues by itself after most faults. Some end it with one of our errors (a token changed
in transit is a wrong token): then the next training resumes from its last checkpoint.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow.spark.control.callbacks import Callback
from sparkflow.spark.errors import SparkTrainingError
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.security.certificates import Authority
from sparkflow_runtime.testing.faulty_link import FaultyLink
from sparkflow_runtime.transport.channel.reactor import available
from support.bad_network import FAULTS, BadNetwork, Weather, distant_tasks
from support.process_fits import SHARE, Fit, counting, linear

pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif(not available(), reason="channels need Linux"),
]

START_S, STALL_S = 30.0, 15.0
LONGEST_S = 120.0
"""The longest time without a step or new attempt: lost messages that start tasks have `START_S`."""


class Pauses(Callback):
    """Measures the longest time without a step and without a new attempt.

    Args:
        weather: Made calm from the beginning of each attempt to its first step, if requested.
        spares_starts: Whether that is requested.
    """

    def __init__(self, weather: Weather, spares_starts: bool) -> None:
        self._weather, self._spares_starts = weather, spares_starts
        self.longest_s, self._last_s = 0.0, time.monotonic()

    def heard(self) -> None:
        now_s = time.monotonic()
        self.longest_s, self._last_s = max(self.longest_s, now_s - self._last_s), now_s

    def begins(self) -> None:
        self.heard()
        self._weather.is_calm = self._spares_starts

    def on_restart(self, reason: str) -> None:
        self.begins()

    def on_steps(self, update: Any) -> None:
        self.heard()
        self._weather.is_calm = False


class Trainings:
    """Consecutive trainings behind a network, each of which must end correctly.

    Args:
        mode: `syncMode`.
        tls: Whether everything is encrypted.
        epochs: The number of epochs of each training.
        weather: The network's weather.
        spares_starts: Whether it is calm until each attempt's first step.
    """

    def __init__(
        self, mode: str, tls: bool, epochs: int, weather: Weather, spares_starts: bool = False
    ) -> None:
        self._mode, self._epochs, self._weather = mode, epochs, weather
        self._in_step = mode in ("sync", "allreduce")
        self._credentials = Credentials("token", Authority.create().issue("fit") if tls else None)
        self.pauses = Pauses(weather, spares_starts)
        self.ended: Counter[str] = Counter()
        self.restarts = 0
        self._calm = self._fit().run()[0] if self._in_step else {}

    def _fit(self, network: BadNetwork | None = None, folder: str = "") -> Fit:
        return Fit(
            self._mode,
            self._epochs,
            num_ps=0 if self._mode == "allreduce" else 1,
            model_fn=linear if self._in_step else counting,
            network=network,
            credentials=self._credentials,
            max_restarts=10_000,
            checkpoint_dir=folder,
            checkpoint_steps=10 if folder else 0,
            start_timeout=START_S,
            stall_timeout=STALL_S,
        )

    def train(self, folder: Path) -> None:
        """Runs one training, restarted as often as errors require."""
        while True:
            self.pauses.begins()
            with distant_tasks(), closing(BadNetwork(self._weather, self._credentials)) as network:
                fit = self._fit(network, str(folder))
                try:
                    values, history = fit.run(self.pauses)
                except (SparkTrainingError, OpError) as error:
                    self.ended[type(error).__name__] += 1
                    continue
                finally:
                    self.pauses.heard()
            self.restarts += len(history.restarts)
            self._check(values)
            return

    def _check(self, values: Mapping[str, Any]) -> None:
        """Checks for the result without faults, bit for bit, or for each row once per epoch."""
        for name, value in self._calm.items():
            np.testing.assert_array_equal(values[name], value, err_msg=name)
        if not self._in_step:
            for each in range(3):
                assert values[f"count{each}"].tolist() == [self._epochs] * 2 * SHARE
            assert values["last"] == values["count0"].sum() / 10


def test_a_training_goes_on_after_faults(tmp_path: Path) -> None:
    weather = Weather(seed=3, share=0.02, faults=("flip", "delay"), most=3)
    trainings = Trainings("sync", True, 20, weather)
    trainings.train(tmp_path)
    assert weather.counts.total() == 3
    assert trainings.pauses.longest_s < LONGEST_S


def test_all_ports_are_behind_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Including the ports of tensor channels, which transfer most of the bytes."""
    made: list[FaultyLink] = []
    disturb = FaultyLink.disturb

    def note(self: FaultyLink, disturbance: Any) -> None:
        made.append(self)
        disturb(self, disturbance)

    monkeypatch.setattr(FaultyLink, "disturb", note)
    weather, shown = Weather(seed=0, share=0.0), Credentials("token")
    with distant_tasks(), closing(BadNetwork(weather, shown)) as network:
        Fit("sync", 20, network=network, credentials=shown).run()
    passed = [link.passed_bytes for link in made]
    assert len(passed) == 1 + 2 * 3  # the driver; gRPC and channel of two workers and a server
    assert sum(size > 1000 for size in passed) >= 5, passed  # nobody has a channel to worker 1


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("spares_starts", [False, True], ids=["all", "steps"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("mode", ["sync", "async", "ssp", "allreduce"])
def test_125_faults(
    tmp_path: Path,
    mode: str,
    tls: bool,
    spares_starts: bool,
    record_property: Callable[[str, object], None],
) -> None:
    """In 1 % of all pieces, then in none, so that training completes.

    An attempt begins with 300 to 400 pieces, with three or four faults among them. So unless they
    are spared, hardly any attempt reaches its first step: then the beginnings are what is tested.
    """
    weather = Weather(seed=125 + tls, most=125)
    trainings = Trainings(mode, tls, 25, weather, spares_starts)
    for number in itertools.count():
        trainings.train(tmp_path / str(number))
        if weather.is_over:
            break
    assert set(weather.counts) == set(FAULTS)
    record_property("faults", dict(weather.counts))
    record_property("pieces", weather.pieces)
    record_property("trainings", number + 1)
    record_property("restarts", trainings.restarts)
    record_property("began anew after", dict(trainings.ended))
    longest_s = round(trainings.pauses.longest_s, 1)
    record_property("longest time without a step or another attempt (s)", longest_s)
    assert longest_s < LONGEST_S
