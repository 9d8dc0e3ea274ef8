"""Devices of a task, with a foreign array module."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.device import device as device_module
from sparkflow_runtime.device.device import Device, count_gpus, gpu_uuids, task_devices
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import FailedPreconditionError


def test_a_task_has_as_many_cpus_as_asked_for() -> None:
    devices = task_devices("worker", 3, cpus=2)
    assert [each.name for each in devices] == [
        f"/job:worker/replica:0/task:3/device:CPU:{index}" for index in range(2)
    ]
    assert {each.type for each in devices} == {"CPU"}
    assert devices[0].memory_limit_bytes == 256 << 20


def test_a_cpu_copies_nothing() -> None:
    [cpu] = task_devices("worker", 0)
    value = np.arange(3)
    assert cpu.to_host(value) is value
    assert cpu.from_host(value) is value
    cpu.synchronize()


def gpu(index: int) -> tuple[Device, list[str]]:
    done: list[str] = []
    stream = SimpleNamespace(synchronize=lambda: done.append("waited"))
    xp: Any = SimpleNamespace(
        cuda=SimpleNamespace(
            Device=lambda number: SimpleNamespace(mem_info=(number, 1000 + number)),
            get_current_stream=lambda: stream,
        ),
        asnumpy=lambda value: ("host", value),
        asarray=lambda value: ("device", value),
    )
    return Device(DeviceSpec("worker", 0, 0, "GPU", index), xp), done


def test_a_gpu_copies_and_is_waited_for() -> None:
    device, done = gpu(2)
    assert device.memory_limit_bytes == 1002  # all of it, not what is free
    assert device.to_host(5) == ("host", 5)
    assert device.from_host(5) == ("device", 5)
    device.synchronize()
    assert done == ["waited"]


def test_without_cupy_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(device_module.importlib, "import_module", fail)
    assert count_gpus() == 0
    assert gpu_uuids() == []
    with pytest.raises(FailedPreconditionError, match=r"needs cupy: pip install"):
        device_module._cupy()


def test_uuids_are_written_as_nvidia_smi_does(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {0: {"uuid": bytes(range(16)) + b"more"}, 1: {}}
    runtime = SimpleNamespace(getDeviceCount=lambda: 2, getDeviceProperties=raw.get)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(device_module, "_cupy", lambda: cupy)
    assert count_gpus() == 2
    assert gpu_uuids() == ["GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"]
