"""A graph that grows by running one op after another, see `random_graphs`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import (
    all as _all_ops,  # noqa: F401  (registers every op)
    registry,
)
from sparkflow_runtime.ops.signature import Signature
from sparkflow_runtime.shapes import Shape
from support.eager import EagerBuilder, EagerTensor

MAX_ELEMENTS: Final = 2_000
"""The maximum number of elements of a tensor; larger ones are not kept."""
MAX_VALUE: Final = 50.0
"""The maximum absolute value; larger ones would make rounding errors look like wrong results."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor of the graph that is being grown, and its value."""

    endpoint: Endpoint
    tensor: EagerTensor

    @property
    def array(self) -> Any:
        """Its contents."""
        return self.tensor.value

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.tensor.dtype

    @property
    def rank(self) -> int:
        """Its number of dimensions."""
        return int(self.array.ndim)


class Growing:
    """The nodes so far, with the values of their tensors.

    Args:
        seed: The seed of the random numbers.
        variables: Whether there are variables.
        smooth: Whether to avoid ops whose results jump.

    Attributes:
        random: The source of random choices.
        smooth: See above.
        nodes: All nodes by name, in an order in which they can run.
        values: The tensors that ops may read.
        feeds: Values of the placeholders.
        initial: Initial values by variable.
        updates: Nodes that run for their effects.
    """

    def __init__(self, seed: int, variables: bool, smooth: bool) -> None:
        self.smooth = smooth
        self.random = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._builder = EagerBuilder()
        self.nodes: dict[str, Node] = {}
        self.values: list[Value] = []
        self.feeds: dict[Endpoint, np.ndarray[Any, Any]] = {}
        self.initial: dict[str, np.ndarray[Any, Any]] = {}
        self._held: dict[str, EagerTensor] = {}
        self._before: dict[str, list[str]] = {}
        self.updates: list[str] = []
        for _ in range(self.random.randint(2, 4)):
            self._placeholder()
        # Waiting for something makes a read one of its place, see `passes.late_reads`.
        self._start = self._node("NoOp", (), {}).name
        for _ in range(self.random.randint(1, 3) if variables else 0):
            self._variable()

    def pick(self, test: Callable[[Value], bool] = lambda _: True) -> Value:
        """Returns a value that passes the test, preferring recent ones; LookupError if none."""
        fitting = [value for value in self.values if test(value)]
        if not fitting:
            raise LookupError
        newest = fitting[-8:]
        return self.random.choice(newest if self.random.random() < 0.7 else fitting)

    def const(self, value: Any, dtype: DType = dtypes.int32) -> Value:
        """A constant node."""
        array = np.asarray(value, dtype.as_numpy_dtype)
        node = self._node("Const", (), {"value": array, "dtype": dtype})
        return Value(Endpoint(node.name, 0), self._builder.const(array, dtype))

    def add(
        self, op: str, *inputs: Value | list[Value], after: Sequence[str] = (), **attrs: Any
    ) -> list[Value]:
        """Adds a node and returns its outputs; [] if it cannot run or its values are unusable."""
        given = [[v.tensor for v in i] if isinstance(i, list) else i.tensor for i in inputs]
        flat = [v for i in inputs for v in (i if isinstance(i, list) else [i])]
        try:
            made = self._builder.run(registry.lookup(op), given, attrs)
        except (OpError, ValueError, TypeError, IndexError, ArithmeticError):
            return []
        if not all(map(_is_good, made.outputs)):
            return []
        node = self._node(op, tuple(v.endpoint for v in flat), dict(made.attrs), after)
        values = [Value(Endpoint(node.name, t.index), t) for t in made.outputs]
        self.values += [v for v in values if not v.dtype.is_ref]
        return values

    def _node(
        self,
        op: str,
        inputs: tuple[Endpoint, ...],
        attrs: Mapping[str, Any],
        after: Sequence[str] = (),
    ) -> Node:
        waits = list(after)
        if self.nodes and op != "Const" and self.random.random() < 0.08:
            waits.append(self.random.choice([*self.nodes]))
        signature: Signature = registry.lookup(op).signature
        node = Node(
            f"{op}_{len(self.nodes)}",
            op,
            inputs,
            tuple(dict.fromkeys(waits)),
            "",
            signature.read_attrs(attrs),
        )
        self.nodes[node.name] = node
        return node

    def array(self, dtype: DType, shape: tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
        """Returns random numbers, of a random shape by default."""
        if shape is None:
            sizes = [0] + [1, 2, 3, 4, 5] * 8
            rank = self.random.choice([0, 1, 1, 2, 2, 2, 3])
            shape = tuple(self.random.choice(sizes) for _ in range(rank))
        if dtype is dtypes.bool_:
            return self._numbers.integers(0, 2, shape).astype(bool)
        if dtype.is_integer:
            return self._numbers.integers(-3, 4, shape).astype(dtype.as_numpy_dtype)
        return np.asarray(self._numbers.uniform(-2, 2, shape), dtype.as_numpy_dtype)

    def _placeholder(self) -> None:
        kinds = [dtypes.float32] * 5 + [dtypes.float64, dtypes.int32]
        dtype = self.random.choice(kinds) if self.values else dtypes.float32
        array = self.array(dtype)
        shape: Shape = array.shape
        if self.random.random() < 0.4:
            shape = tuple(n if self.random.random() < 0.5 else None for n in array.shape)
        if self.random.random() < 0.1:
            shape = None
        node = self._node("Placeholder", (), {"dtype": dtype, "shape": shape})
        endpoint = Endpoint(node.name, 0)
        self.feeds[endpoint] = array
        self.values.append(Value(endpoint, self._builder.tensor(array, dtype, shape)))

    def _variable(self) -> None:
        array = self.array(dtypes.float32)
        node = self._node("VariableV2", (), {"dtype": dtypes.float32, "shape": array.shape})
        self.initial[node.name] = array
        self._held[node.name] = self._builder.variable(array)
        self._before[node.name] = []
        # The node that all readers use, as created by the front end.
        self._read(node.name, "Identity")

    def _read(self, variable: str, op: str, *others: Value) -> None:
        """Adds a read between the last update of a variable and its next."""
        after = [name for name in self._before[variable] if name in self.updates] or [self._start]
        reference = Value(Endpoint(variable, 0), self._held[variable])
        made = self.add(op, reference, *others, after=after)
        if made:
            value = made[0].tensor
            if value.value is self._held[variable].value.array:
                # An Identity passes on the variable's array, which updates change.
                self.values[-1] = Value(
                    made[0].endpoint,
                    self._builder.tensor(value.value.copy(), value.dtype, value.static_shape),
                )
            self._before[variable].append(made[0].endpoint.node)

    def read_variable(self) -> None:
        """Adds a node that reads a variable after its last update."""
        if not self._held:
            raise LookupError
        name = self.random.choice([*self._held])
        if self.random.random() < 0.6:
            self._read(name, self.random.choice(["Identity", "Identity", "Neg", "Relu"]))
            return
        other = self.pick(lambda v: v.dtype is dtypes.float32)
        self._read(name, self.random.choice(["Mul", "AddV2"]), other)

    def update_variable(self) -> None:
        """Adds an update, after every read of the variable's previous value."""
        if not self._held or len(self.updates) > 5:
            raise LookupError
        name = self.random.choice([*self._held])
        shape = self.initial[name].shape
        delta = self.pick(lambda v: v.dtype is dtypes.float32 and v.array.shape == shape)
        op = self.random.choice(["Assign", "AssignAdd", "AssignSub", "ApplyGradientDescent"])
        reference = Value(Endpoint(name, 0), self._held[name])
        held = self._held[name].value
        kept = held.read().copy()
        rate = [self.const(0.125, dtypes.float32)] if op == "ApplyGradientDescent" else []
        made = self.add(op, reference, *rate, delta, after=self._before[name])
        if not made or not _is_good_array(held.read()):
            held.array = kept
            if made:
                del self.nodes[made[0].endpoint.node]
            return
        held.array = held.read().copy()  # the variable may now hold the array that it was given
        self._before[name] = [made[0].endpoint.node]
        self.updates.append(made[0].endpoint.node)


def _is_good(tensor: EagerTensor) -> bool:
    return tensor.dtype.is_ref or _is_good_array(tensor.value)


def _is_good_array(value: Any) -> bool:
    if value.size > MAX_ELEMENTS or value.ndim > 5:
        return False
    return value.dtype == bool or bool(np.all(np.abs(value) <= MAX_VALUE))


def is_float(value: Value) -> bool:
    """Whether it holds floating-point numbers."""
    return value.dtype.is_floating


def is_number(value: Value) -> bool:
    """Whether it holds numbers."""
    return value.dtype is not dtypes.bool_
