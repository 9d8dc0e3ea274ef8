"""Runs single nodes immediately: the basis of eager execution.

Kernels are those of compiled programs. A stateless kernel is bound once per op type and attributes;
a stateful one is bound for each call with its own resources, which live as long as the handles it
returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from sparkflow_runtime.compiler.location import located
from sparkflow_runtime.compiler.program import with_functions
from sparkflow_runtime.device.device import Device
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext, StepArithmetic
from sparkflow_runtime.ops.kernels.narrow import bind_kernel
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable

_NO_FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType({})
MOST_KERNELS: Final = 10_000
"""Number of bound kernels after which the cache is cleared."""


class _NoStep:
    """The step of a single node: it is never cancelled, and sends nothing."""

    step_id = 0
    iteration = 0
    number = 0

    def check_cancelled(self) -> None:
        """Never cancelled."""

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Never cancelled."""
        return _nothing

    def send(self, key: str, destination: str, values: tuple[Any, ...]) -> None:
        """There is no other device.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"A node that runs by itself cannot send {key}")

    def receive(self, key: str, source: str) -> tuple[Any, ...]:
        """There is no other device.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"A node that runs by itself cannot receive {key}")


def _nothing() -> None:
    """Unregisters a callback that was never stored."""


@dataclass(frozen=True, slots=True)
class _Bound:
    call: Callable[..., Any]
    reads: tuple[bool, ...]
    takes_step: bool


class Immediate:
    """Runs nodes on one device. Safe to use from several threads; `_lock` guards `_kernels`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._kernels: dict[Any, _Bound] = {}
        self._step = _NoStep()

    def run(
        self,
        op_type: str,
        name: str,
        attrs: Mapping[str, Any],
        inputs: Sequence[Any],
        functions: Mapping[str, Function] = _NO_FUNCTIONS,
    ) -> tuple[Any, ...]:
        """Returns the values of a node's outputs, lists flattened.

        Args:
            op_type: A registered op type.
            name: The node's name in error texts.
            attrs: All attributes.
            inputs: Arrays, and variables if the op accepts them; lists flattened.
            functions: The functions that the node may call, bodies in execution order.

        Raises:
            UnimplementedError: There is no kernel.
            OpError: The kernel failed.
        """
        try:
            bound = self._bound(op_type, name, attrs, functions)
            # A variable's own array may change at any time.
            values = [
                value.read().copy() if read and isinstance(value, Variable) else value
                for value, read in zip(inputs, bound.reads, strict=True)
            ]
            with StepArithmetic():
                result = (
                    bound.call(self._step, *values) if bound.takes_step else bound.call(*values)
                )
        except Exception as error:
            raise located(error, Node(name, op_type, device="", attrs=attrs)) from error
        if isinstance(result, tuple | list):
            return tuple(result)
        return (result,)

    def _bound(
        self,
        op_type: str,
        name: str,
        attrs: Mapping[str, Any],
        functions: Mapping[str, Function],
    ) -> _Bound:
        op = registry.lookup(op_type)
        key = None if op.stateful or functions else _key(op_type, attrs)
        found = None if key is None else self._kernels.get(key)  # one lookup: others may clear it
        if found is not None:
            return found
        registry.require_kernel(op, self._device.type, attrs)
        context = KernelContext(
            self._device.xp, self._device.type, self._device.name, Resources(), Resources()
        )
        if functions:
            context = with_functions(context, functions)
        bound = _Bound(
            bind_kernel(op, Node(name, op_type, attrs=attrs), context),
            tuple(not dtype.is_ref for dtype in op.signature.input_dtypes(attrs)),
            op.takes_step,
        )
        if key is not None:
            with self._lock:
                if len(self._kernels) >= MOST_KERNELS:
                    self._kernels.clear()
                self._kernels[key] = bound
        return bound


def _key(op_type: str, attrs: Mapping[str, Any]) -> Any:
    """Returns the cache key of a stateless kernel; None if it has none."""
    try:
        key = (
            op_type,
            tuple(
                (name, tuple(value) if isinstance(value, list) else value)
                for name, value in attrs.items()
                if not name.startswith("_")
            ),
        )
        hash(key)
    except TypeError:
        return None
    return key
