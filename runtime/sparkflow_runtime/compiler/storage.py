"""Decides where every value of a plan is stored: in the frame's block, or in a new array.

A value may be stored in the block if its shape is known and nothing keeps it after the step. Views
share the memory of their base, and keep it in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.memory import Layout, Life, lay_out
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry

_NOTHING: Final[frozenset[Endpoint]] = frozenset()


@dataclass(slots=True)
class Storage:
    """Where values are stored.

    Attributes:
        slots: The values in the block, with the number of their slot.
        views: Values that are aliases or views of slots: created once per frame.
        fresh: Values that are new arrays, created right before the unit that fills them.
        kept: Values that may be kept after the step, other than by fetching.
        filling: Kernels that fill given arrays, by the name of their nodes.
        layout: The locations of the slots in the block.
    """

    slots: dict[Endpoint, int] = field(default_factory=dict)
    views: set[Endpoint] = field(default_factory=set)
    fresh: set[Endpoint] = field(default_factory=set)
    kept: set[Endpoint] = field(default_factory=set)
    filling: dict[str, Callable[..., Any]] = field(default_factory=dict)
    layout: Layout = field(default_factory=lambda: Layout((), 0))

    def is_in_block(self, endpoint: Endpoint) -> bool:
        """Whether the value is always the same array of the frame."""
        return endpoint in self.slots or endpoint in self.views


@dataclass(frozen=True, slots=True)
class Kernels:
    """How the kernels of nodes are bound, and the arrays that they use.

    Attributes:
        bind: The kernel of a node.
        bind_out: Its kernel that fills given arrays, or None.
        xp: The module of the arrays.
        constant: A known value as kernels accept it.
        reads_on_host: Whether a node's input of that number is a host array when it is known.
        bind_group: The kernel of several updates, or None.
        late_checks: Whether the results of checks are returned with the results, see
            `Planned.late`.
        calls_all: Whether kernels are called also for arguments and for nodes that only pass a
            variable on: a trace lists them, and a GPU's copy the arguments to the GPU.
        copies_reads: Whether every read of a variable is a copy: values read by a function of the
            library may outlive the updates of later calls and of its caller.
    """

    bind: Callable[[Node], Callable[..., Any]]
    bind_out: Callable[[Node], Callable[..., Any] | None]
    xp: Any = np
    constant: Callable[[Any], Any] = lambda value: value
    reads_on_host: Callable[[Node, int], bool] = lambda node, number: False
    late_checks: bool = False
    calls_all: bool = False
    copies_reads: bool = False
    bind_group: Callable[[Sequence[Node]], Callable[..., Any] | None] | None = None


def assign_storage(
    units: Sequence[Unit],
    known: Mapping[Endpoint, Known],
    kernels: Kernels,
    is_function: bool,
) -> Storage:
    """Decides where the outputs of units are stored.

    Args:
        units: The plan.
        known: What is known of its tensors.
        kernels: The kernels of its nodes.
        is_function: Whether results are returned uncopied.
    """
    return _Assigner(units, known, kernels, is_function).assign()


class _Assigner:
    def __init__(
        self,
        units: Sequence[Unit],
        known: Mapping[Endpoint, Known],
        kernels: Kernels,
        is_function: bool,
    ) -> None:
        self.units = units
        self.known = known
        self.kernels = kernels
        self.is_function = is_function
        self.storage = Storage()
        self.roots = _roots(units)
        self.kept = self.storage.kept
        self.results: set[Endpoint] = set()
        self.read_by_kernels = {
            endpoint for unit in units if unit.fused is not None for endpoint in unit.inputs
        }
        self.born: dict[Endpoint, int] = {}
        self.takeovers: dict[int, list[Endpoint | None]] = {}
        self.like: dict[Endpoint, Any] = {}  # arrays with the memory layout of static views
        self.last_use: dict[Endpoint, int] = {}

    def assign(self) -> Storage:
        self._find_uses()
        for number, unit in enumerate(self.units):
            if unit.group:
                continue
            if unit.fused is None:
                self._place_node(number, unit.node)
                continue
            for output in unit.fused.outputs:
                self._place(number, output.endpoints[0], output.endpoints)
                if output.endpoints[0] in self.storage.slots:
                    self.storage.views.update(output.endpoints[1:])
            for endpoint, source in unit.fused.copies.items():
                if self.storage.is_in_block(source):
                    self.storage.views.add(endpoint)
        self._lay_out()
        return self.storage

    def _find_uses(self) -> None:
        for number, unit in enumerate(self.units):
            for endpoint in unit.inputs:
                for root in self.roots.get(endpoint, _NOTHING):
                    self.last_use[root] = number
            if unit.fused is not None:
                continue
            op = registry.lookup(unit.node.op)
            held = [unit.node.inputs[slot] for slot in op.lends(unit.node)]
            if unit.node.op == RETVAL:
                self._find_result(unit.node.inputs[0])
            elif op.may_keep_inputs(unit.node):
                held += unit.inputs
            for endpoint in held:
                self.kept |= self.roots.get(endpoint, _NOTHING)

    def _find_result(self, endpoint: Endpoint) -> None:
        if self.is_function:
            self.kept |= self.roots.get(endpoint, _NOTHING)
        elif self.roots.get(endpoint) == frozenset({endpoint}) and self.known[endpoint].full_shape:
            self.results.add(endpoint)  # it can be handed out without a copy

    def _place(self, number: int, first: Endpoint, endpoints: Sequence[Endpoint]) -> None:
        if first in self.kept or not self.results.isdisjoint(endpoints):
            self.storage.fresh.add(first)
        else:
            self.storage.slots[first] = -1
            self.born[first] = number

    def _place_node(self, number: int, node: Node) -> None:
        op = registry.lookup(node.op)
        count = len(op.signature.output_dtypes(node.attrs))
        outputs = [Endpoint(node.name, slot) for slot in range(count)]
        found = [self.known[each] for each in outputs]
        if (
            not outputs
            or node.op in (ARG, RETVAL)
            or op.takes_step
            or any(each.full_shape is None or each.dtype not in dtypes.PLAIN for each in found)
        ):
            return
        if op.is_view and not op.stateful and self._is_static_view(node):
            self.storage.views.update(outputs)
            return
        if op.is_view and self.read_by_kernels.isdisjoint(outputs):
            return  # a view costs nothing; fused kernels, which take no strides, need a copy
        kernel = self.kernels.bind_out(node)
        if kernel is not None:
            self.storage.filling[node.name] = kernel
            for endpoint in outputs:
                self._place(number, endpoint, [endpoint])

    def _is_static_view(self, node: Node) -> bool:
        """Whether the outputs are always the same views of the block."""
        unknown = [number for number, each in enumerate(node.inputs) if self._is_made(each)]
        # The view's offset is known, or each step has another view.
        if len(unknown) != 1 or not self.storage.is_in_block(node.inputs[unknown[0]]):
            return False
        xp = self.kernels.xp
        arrays = [self._array_like(each) for each in node.inputs]
        viewed = arrays[unknown[0]]
        try:
            with np.errstate(all="ignore"):
                made = self.kernels.bind(node)(*arrays)
        except Exception:  # any error: the node raises it again when it runs
            return False
        several = made if isinstance(made, tuple | list) else (made,)
        found = all(
            isinstance(each, xp.ndarray)
            and xp.may_share_memory(each, viewed)
            and (each.flags.c_contiguous or Endpoint(node.name, slot) not in self.read_by_kernels)
            for slot, each in enumerate(several)
        )
        if found:
            self.like.update((Endpoint(node.name, slot), each) for slot, each in enumerate(several))
        return found

    def _is_made(self, endpoint: Endpoint) -> bool:
        return self.known[endpoint].value is None

    def _array_like(self, endpoint: Endpoint) -> Any:
        known = self.known[endpoint]
        if known.value is not None:
            return known.value
        found = self.like.get(endpoint)
        if found is None:
            found = self.kernels.xp.empty(known.full_shape or (), known.dtype.as_numpy_dtype)
        return found

    def _lay_out(self) -> None:
        place_of: dict[Endpoint, int] = {}
        lives: list[Life] = []
        last_use = self.last_use
        for endpoint in self.storage.slots:
            known = self.known[endpoint]
            born = self.born[endpoint]
            end = max(last_use.get(endpoint, born), born)
            size = _size_bytes(known)
            source = self._overwritten(born, endpoint)
            if source is not None and source in place_of:
                place = place_of[source]
                lives[place] = Life(lives[place].size_bytes, lives[place].begin, end)
            else:
                place = len(lives)
                lives.append(Life(size, born, end))
            place_of[endpoint] = place
            self.storage.slots[endpoint] = place
        self.storage.layout = lay_out(lives)

    def _overwritten(self, number: int, endpoint: Endpoint) -> Endpoint | None:
        """Returns the input of a kernel whose memory an output reuses, as this is its last use."""
        fused = self.units[number].fused
        if fused is None:
            return self._overwritten_by(number)
        output = next(i for i, each in enumerate(fused.outputs) if endpoint in each.endpoints)
        if number not in self.takeovers:
            self.takeovers[number] = self._takeovers(number)
        return self.takeovers[number][output]

    def _overwritten_by(self, number: int) -> Endpoint | None:
        """The same for a node."""
        node = self.units[number].node
        at = registry.lookup(node.op).overwrites
        if at is None:
            return None
        total = node.inputs[at]
        is_free = (
            total in self.storage.slots
            and self.last_use[total] == number
            and self.born[total] < number
            and sum(total in self.roots.get(each, _NOTHING) for each in node.inputs) == 1
        )
        return total if is_free else None

    def _takeovers(self, number: int) -> list[Endpoint | None]:
        """Returns, per output of a fused kernel, the input that it overwrites."""
        fused = self.units[number].fused
        assert fused is not None
        free: list[Endpoint] = []
        for endpoint in (fused.inputs[place] for place in fused.whole_inputs):
            if (
                endpoint in self.storage.slots
                and self.last_use[endpoint] == number
                and self.born[endpoint] < number
                and endpoint not in free
                and sum(endpoint in self.roots.get(each, _NOTHING) for each in fused.inputs) == 1
            ):
                free.append(endpoint)
        found: list[Endpoint | None] = [None] * len(fused.outputs)
        for place in fused.whole_outputs if free else ():
            first = fused.outputs[place].endpoints[0]
            if first not in self.storage.slots:
                continue
            size = _size_bytes(self.known[first])
            chosen = next((each for each in free if _size_bytes(self.known[each]) == size), None)
            if chosen is not None:
                free.remove(chosen)
            found[place] = chosen
        return found


def _roots(units: Sequence[Unit]) -> dict[Endpoint, frozenset[Endpoint]]:
    """Returns, per tensor, those whose memory it may share, including itself if it is new."""
    roots: dict[Endpoint, frozenset[Endpoint]] = {}
    for unit in units:
        if unit.fused is not None:
            for output in unit.fused.outputs:
                for endpoint in output.endpoints:
                    roots[endpoint] = frozenset({output.endpoints[0]})
            for endpoint, source in unit.fused.copies.items():
                roots[endpoint] = roots.get(source, _NOTHING)
            continue
        op = registry.lookup(unit.node.op)
        shared = () if unit.group else op.shared(unit.node, unit.inputs)
        held = _NOTHING.union(*(roots.get(endpoint, _NOTHING) for endpoint in shared))
        for endpoint in unit.outputs:
            roots[endpoint] = held | {endpoint}
    return roots


def _size_bytes(known: Known) -> int:
    shape = known.full_shape
    assert shape is not None
    return int(np.prod(shape, dtype=np.int64)) * int(np.dtype(known.dtype.as_numpy_dtype).itemsize)
