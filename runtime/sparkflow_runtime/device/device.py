"""Devices of this task: their names, and the array module that their kernels use."""

from __future__ import annotations

import importlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import FailedPreconditionError

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu

_CPU_MEMORY_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class Device:
    """One device.

    Attributes:
        spec: Its complete name.
        xp: numpy for a CPU, cupy for a GPU.
        gpu: State shared by the partitions on a GPU; None for a CPU.
    """

    spec: DeviceSpec
    xp: Any
    gpu: Gpu | None = None

    @property
    def name(self) -> str:
        """The complete name."""
        return self.spec.to_string()

    @property
    def type(self) -> str:
        """`CPU` or `GPU`."""
        return str(self.spec.device_type)

    @property
    def memory_limit_bytes(self) -> int:
        """The memory of a GPU; for a CPU TensorFlow's nominal value, which limits nothing."""
        if self.xp is np:
            return _CPU_MEMORY_BYTES
        return int(self.xp.cuda.Device(self.spec.device_index).mem_info[1])

    def synchronize(self) -> None:
        """Waits until the device has finished all submitted work."""
        if self.xp is not np:
            self.xp.cuda.get_current_stream().synchronize()

    def to_host(self, value: Any) -> Any:
        """Returns the value as a numpy array (or scalar) on the host."""
        return value if self.xp is np else self.xp.asnumpy(value)

    def from_host(self, value: Any) -> Any:
        """Returns a host array as an array of this device."""
        return value if self.xp is np else self.xp.asarray(value)


def task_devices(
    job: str, task: int, gpus: int = 0, cpus: int = 1, gpu_memory_bytes: int | None = None
) -> list[Device]:
    """Returns the devices of one task: CPU:0 to CPU:`cpus - 1`, and the first `gpus` GPUs.

    Each GPU's pool uses at most `gpu_memory_bytes`; None for all of its memory.

    CPU devices share the machine's cores; programs ask for several to try their towers.

    Raises:
        FailedPreconditionError: GPUs are requested and cupy is not installed.
    """
    devices = [Device(DeviceSpec(job, 0, task, "CPU", index), np) for index in range(cpus)]
    if gpus:
        from sparkflow_runtime.device.gpu import Gpu, use_default_precision

        cupy = _cupy()
        use_default_precision()
        for index in range(gpus):
            gpu = DeviceSpec(job, 0, task, "GPU", index)
            devices.append(Device(gpu, cupy, Gpu(cupy, index, gpu_memory_bytes)))
    return devices


def count_gpus() -> int:
    """Returns the number of GPUs that cupy sees; 0 without cupy or without a driver."""
    try:
        return int(_cupy().cuda.runtime.getDeviceCount())
    except Exception:  # cupy raises its own types if there is no driver
        return 0


def gpu_uuids() -> list[str]:
    """Returns the UUIDs of the GPUs, as `nvidia-smi -L` shows them; see `count_gpus`."""
    found = []
    for index in range(count_gpus()):
        raw = _cupy().cuda.runtime.getDeviceProperties(index).get("uuid")
        if raw is not None:
            found.append(f"GPU-{uuid.UUID(bytes=bytes(raw)[:16])}")
    return found


def _cupy() -> Any:
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise FailedPreconditionError(
            message="A GPU device needs cupy: pip install 'sparkflow-ml[gpu12]'"
        ) from error
