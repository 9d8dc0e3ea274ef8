"""The Spark resources of each role's tasks: cores, GPUs, separate executors. No pyspark here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

CPUS: Final = "cpus"
"""The name of the resource for cores; other resources are named as in Spark's settings (`gpu`)."""

_MIB: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}
_MEMORY: Final = ("memory", "memoryOverhead", "pyspark.memory", "offHeap")
_OWN: Final = ("task", "executor")


@dataclass(frozen=True, slots=True)
class TaskResources:
    """The resources of one task, and of its executors if Spark may add executors.

    Attributes:
        task: Amounts by resource: `cpus`, `gpu`, or another that Spark is configured for.
        executor: By resource, an executor's `amount`, and `discoveryScript` and `vendor` if they
            are set. Memory is in MiB. Empty to use existing executors.
    """

    task: Mapping[str, float] = field(default_factory=dict)
    executor: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any) -> TaskResources:
        """Parses the resources that a user requests.

        Args:
            value: A dictionary of amounts (`{"cpus": 2, "gpu": 1}`); a pyspark `ResourceProfile`;
                or the result of `to_json`.

        Raises:
            TypeError: The value is none of these.
            ValueError: Spark would not accept the amounts.
        """
        if hasattr(value, "taskResources") and hasattr(value, "executorResources"):
            task = {name: each.amount for name, each in value.taskResources.items()}
            executor = {name: _request(each) for name, each in value.executorResources.items()}
            return cls(_tasks(task), _executors(executor))
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise TypeError(
                "a dictionary of amounts such as {'cpus': 2, 'gpu': 1} or a pyspark.resource."
                f"ResourceProfile is needed, got {value!r}"
            )
        if not value.keys() & set(_OWN):
            return cls(_tasks(value))
        if unknown := sorted(value.keys() - set(_OWN)):
            raise ValueError(f"only 'task' and 'executor' are known, got {', '.join(unknown)}")
        return cls(_tasks(value.get("task", {})), _executors(value.get("executor", {})))

    def to_json(self) -> dict[str, Any]:
        """Returns it as a dictionary for JSON; {} if it is empty."""
        if not self:
            return {}
        return {
            "task": dict(self.task),
            "executor": {name: dict(each) for name, each in self.executor.items()},
        }

    def __bool__(self) -> bool:
        return bool(self.task or self.executor)

    def __str__(self) -> str:
        return " and ".join(f"{amount:g} {name}" for name, amount in self.task.items())


@dataclass(frozen=True, slots=True)
class RoleResources:
    """The resources of workers and parameter servers; each is empty for Spark's settings."""

    worker: TaskResources = TaskResources()
    ps: TaskResources = TaskResources()

    @classmethod
    def of(cls, worker: Any, ps: Any) -> RoleResources:
        """Parses `workerResources` and `psResources`, see `TaskResources.of`."""
        return cls(TaskResources.of(worker), TaskResources.of(ps))

    def __bool__(self) -> bool:
        return bool(self.worker or self.ps)


def worker_resources(value: Any) -> dict[str, Any]:
    """Converts the parameter `workerResources` to a dictionary for JSON."""
    found = TaskResources.of(value)
    amount = found.task.get("gpu", 0.0)
    if amount % 1:
        raise ValueError(
            f"gpu={amount:g} makes tasks share a GPU, which then runs out of memory or serves one "
            "at a time: use a whole number"
        )
    return found.to_json()


def ps_resources(value: Any) -> dict[str, Any]:
    """Converts the parameter `psResources` to a dictionary for JSON."""
    found = TaskResources.of(value)
    if found.task.get("gpu"):
        raise ValueError(
            f"gpu={found.task['gpu']:g}: parameter servers compute on the CPU, so a GPU would be "
            "wasted"
        )
    return found.to_json()


def _tasks(given: Any) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise TypeError(f"a dictionary of amounts is needed for a task, got {given!r}")
    found = {}
    for name, amount in given.items():
        value = _amount(name, amount)
        # Spark's rule: several tasks share one, or a task has whole ones.
        if (value > 1 and value % 1) or (name == CPUS and value % 1):
            raise ValueError(f"{name}={amount!r}: use a whole number")
        found[str(name)] = value
    return dict(sorted(found.items()))


def _executors(given: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(given, Mapping):
        raise TypeError(f"a dictionary of amounts is needed for an executor, got {given!r}")
    found: dict[str, dict[str, Any]] = {}
    for name, each in given.items():
        request = dict(each) if isinstance(each, Mapping) else {"amount": each}
        if unknown := sorted(request.keys() - {"amount", "discoveryScript", "vendor"}):
            raise ValueError(
                f"{name}: an executor's resource has amount, discoveryScript and vendor, not "
                f"{', '.join(map(str, unknown))}"
            )
        amount = request.get("amount")
        value = _mib(name, amount) if name in _MEMORY else _amount(name, amount)
        if value % 1:
            raise ValueError(f"{name}={amount!r}: use a whole number")
        texts = {
            key: str(request[key]) for key in ("discoveryScript", "vendor") if request.get(key)
        }
        found[str(name)] = {"amount": int(value), **texts}
    return dict(sorted(found.items()))


def _request(each: Any) -> dict[str, Any]:
    """One of a profile's executor resource requests."""
    return {"amount": each.amount, "discoveryScript": each.discoveryScript, "vendor": each.vendor}


def _amount(name: object, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} needs a number, got {value!r}")
    if not 0 < value < 1e9:
        raise ValueError(f"{name}={value!r}: use a positive number")
    return float(value)


def _mib(name: str, value: Any) -> float:
    if not isinstance(value, str):
        return _amount(name, value)
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt])i?b?\s*", value.lower(), re.ASCII)
    if found is None:
        raise ValueError(f"{name}={value!r}: write a size as 512m or 8g, or a number of MiB")
    return _amount(name, float(int(int(found[1]) * _MIB[found[2]])))
