"""Plans of a partition for the observed shapes of arguments.

The first few signatures of a partition get a plan at once, so that all runs of a graph have
bit-identical results; later ones when they have recurred often enough to pay for one, and until
then the general program, without known shapes, runs. So the short batch at the end of an epoch
costs one plan in total, and shapes that change in every step cost a few. What counts is how often,
not the time: a program gets the same plans in every run.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sparkflow_runtime.compiler import emit
from sparkflow_runtime.compiler.known import Define, Known, find_known, without_shapes
from sparkflow_runtime.compiler.plan import Unit, make_units, single_units
from sparkflow_runtime.compiler.planned import Planned
from sparkflow_runtime.compiler.storage import Kernels, Storage, assign_storage
from sparkflow_runtime.ir.function import called
from sparkflow_runtime.ir.node import ARG, Endpoint, Node
from sparkflow_runtime.ir.phases import Phase, run_phases
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernels.narrow import is_fusable
from sparkflow_runtime.resources.container import Resources

if TYPE_CHECKING:
    from sparkflow_runtime.codegen.ir.kernel import Kernel
    from sparkflow_runtime.compiler.fusion.finish import FusedKernel

EARLY: Final = 4
"""Number of signatures of a partition that get a plan when first seen."""
SIGHTINGS: Final = 16
"""How often later ones are seen before they do.

A plan costs as much as 30 to 150 steps of the general program. Measured 2026-11-29 with 2 instead:
the first 40 steps of a transformer over 20 lengths took 6 s instead of 0.6, 80 steps of a text CNN
over lengths 8 to 80 5 s instead of 0.6.
"""
MAX_PLANS: Final = 16
"""Maximum number of plans per partition; the least recently used one is dropped."""
LEAST_ALONE: Final = 1 << 14
"""Below this number of elements compiling a single numpy function does not pay."""
_MAX_SEEN: Final = 1024

CompileKernel = Callable[["Kernel", tuple[int, ...]], Callable[..., bool]]
"""Maps a kernel and the sizes of its iteration space to a function of its arrays."""

Signature = tuple[Any, ...]
"""The shapes of the arguments."""
BindLoop = Callable[
    [Node, Mapping[Endpoint, Known], Collection[Endpoint]], Callable[..., Any] | None
]
"""Returns a kernel for a loop with inputs of known shapes; the last argument: tensors read."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Statistics:
    """Statistics of a partition's runs.

    Attributes:
        planned: Runs of a plan.
        general: Runs of the general program, without known shapes.
        plans: Plans created.
        dropped: Plans dropped in favour of others.
        failed: Signatures for which no plan could be created.
        block_bytes: The largest block of memory of a plan: the peak need of a step.
    """

    planned: int = 0
    general: int = 0
    plans: int = 0
    dropped: int = 0
    failed: int = 0
    block_bytes: int = 0


def make_plan(
    nodes: Sequence[Node],
    shapes: Mapping[int, Any],
    kernels: Kernels,
    is_function: bool,
    copied: set[tuple[str, int]],
    compile_kernel: CompileKernel | None = None,
    bind_loop: BindLoop | None = None,
    define: Define | None = None,
) -> Planned:
    """Returns the plan of a partition for arguments of these shapes.

    Args:
        nodes: In execution order.
        shapes: The shapes of the arguments by the index of their `_Arg`; None for no shape.
        kernels: The kernels of the nodes.
        is_function: Whether this is a function of the library, see `program`.
        copied: The reads of variables that must be copies, see `reads`.
        compile_kernel: Compiles fused kernels, or raises UnsupportedKernel; None for machine code
            of this processor, if it has a code generator.
        bind_loop: Returns faster kernels for loops, if possible, see `loops`.
        define: Returns the functions of loops, see `known`.
    """
    given = {
        Endpoint(node.name, 0): shapes[node.attrs["index"]]
        for node in nodes
        if node.op == ARG and shapes[node.attrs["index"]] is not None
    }

    def bind_fused(fused: FusedKernel) -> Callable[..., bool]:
        return (compile_kernel or machine_code)(fused.kernel, fused.sizes)

    least_alone = 0 if is_function or compile_kernel is not None else LEAST_ALONE
    values: dict[str, Any] = {
        "nodes": nodes,
        "given": given,
        "compile_kernel": compile_kernel,
        "least_alone": least_alone,
        "kernels": kernels,
        "bind_loop": bind_loop,
        "define": define,
        "bind_fused": bind_fused,
        "copied": copied,
        "is_function": is_function,
    }
    run_phases(PLANNING, values, _log_seconds)
    planned: Planned = values["planned"]
    return planned


def make_general(
    nodes: Sequence[Node],
    constants: Mapping[Endpoint, Any],
    kernels: Kernels,
    is_function: bool,
    copied: set[tuple[str, int]],
    calls_all: bool = True,
) -> Planned:
    """Returns the plan of a partition for any shapes: single nodes, with new arrays.

    Args:
        nodes: In execution order.
        constants: The values of its `Const` nodes, as kernels accept them.
        kernels: The kernels of the nodes.
        is_function: See `make_plan`.
        copied: See `make_plan`.
        calls_all: See `Kernels`.
    """
    values: dict[str, Any] = {
        "nodes": nodes,
        "constants": constants,
        "kernels": replace(kernels, calls_all=calls_all),
        "is_function": is_function,
        "copied": copied,
        "storage": Storage(),
        "bind_fused": None,
    }
    run_phases(GENERAL, values, _log_seconds)
    planned: Planned = values["planned"]
    return planned


def _log_seconds(phase: Phase, values: Mapping[str, Any], changed: bool, seconds: float) -> None:
    _log.debug("%s took %.3f ms", phase.name, seconds * 1e3)


def find_units(
    nodes: Sequence[Node],
    known: Mapping[Endpoint, Known],
    compile_kernel: CompileKernel,
    least_alone: int = 0,
) -> list[Unit]:
    """Returns the calls of a partition with fused kernels, see `make_plan` and `make_units`."""
    from sparkflow_runtime.codegen.cpu.loops import UnsupportedKernel

    def can_generate(kernel: Kernel, sizes: tuple[int, ...]) -> bool:
        try:
            compile_kernel(kernel, sizes)
        except UnsupportedKernel:
            return False
        return True

    return make_units(nodes, known, can_generate, least_alone)


def _has_products(nodes: Sequence[Node], known: object, copied: object, kernels: Kernels) -> bool:
    return kernels.xp is np and any(
        registry.lookup(node.op).matrix_product(node) is not None for node in nodes
    )


def _joined(
    nodes: Sequence[Node],
    known: dict[Endpoint, Known],
    copied: set[tuple[str, int]],
    kernels: Kernels,
) -> tuple[Sequence[Node], Mapping[Endpoint, Known]]:
    from sparkflow_runtime.compiler.products import join_products

    return join_products(nodes, known, copied)


def _has_fusable(units: Sequence[Unit], *_: object) -> bool:
    return any(is_fusable(registry.lookup(unit.node.op), unit.node) for unit in units)


def _fused(
    units: list[Unit],
    nodes: Sequence[Node],
    known: Mapping[Endpoint, Known],
    compile_kernel: CompileKernel | None,
    least_alone: int,
) -> list[Unit]:
    """Returns the same calls, some as fused kernels; single nodes without a code generator."""
    from sparkflow_runtime.codegen.machine import native

    if compile_kernel is None and not native.available():
        return units
    return find_units(nodes, known, compile_kernel or machine_code, least_alone)


def _calls_functions(
    kernels: Kernels, bind_loop: BindLoop | None, nodes: Sequence[Node], *_: object
) -> bool:
    return bind_loop is not None and any(True for node in nodes for _ in called(node))


def _with_loops(
    kernels: Kernels,
    bind_loop: BindLoop,
    nodes: Sequence[Node],
    known: Mapping[Endpoint, Known],
) -> Kernels:
    from sparkflow_runtime.ops.control.control_flow import While

    read = {endpoint for node in nodes for endpoint in node.inputs}

    def bind(node: Node) -> Callable[..., Any]:
        is_loop = isinstance(registry.lookup(node.op), While)
        found = bind_loop(node, known, read) if is_loop else None
        return kernels.bind(node) if found is None else found

    return replace(kernels, bind=bind)


def _has_updates(units: Sequence[Unit], *_: object) -> bool:
    return any(registry.lookup(unit.node.op).applies_gradients for unit in units)


def _grouped(units: list[Unit], known: Mapping[Endpoint, Known], kernels: Kernels) -> list[Unit]:
    from sparkflow_runtime.compiler.update_groups import group_updates

    return units if kernels.bind_group is None else group_updates(units, known, kernels.bind_group)


GIVEN: Final = (
    *("nodes", "given", "define", "compile_kernel", "least_alone", "kernels"),
    *("bind_loop", "bind_fused", "copied", "is_function"),
)
"""The input of the first phase of `PLANNING`: the prepared arguments of `make_plan`."""
UNITS: Final = Phase("units", single_units, ("nodes", "known"), ("units",))
EMISSION: Final = Phase(
    "emit",
    emit.emit,
    ("units", "known", "storage", "kernels", "bind_fused", "copied", "is_function"),
    ("planned",),
)
PLANNING: Final = (
    Phase("known", find_known, ("nodes", "given", "define"), ("known",)),
    Phase(
        "loops",
        _with_loops,
        ("kernels", "bind_loop", "nodes", "known"),
        ("kernels",),
        when=_calls_functions,
    ),
    Phase(
        "products",
        _joined,
        ("nodes", "known", "copied", "kernels"),
        ("nodes", "known"),
        when=_has_products,
    ),
    UNITS,
    Phase(
        "fusion",
        _fused,
        ("units", "nodes", "known", "compile_kernel", "least_alone"),
        ("units",),
        when=_has_fusable,
    ),
    Phase("update_groups", _grouped, ("units", "known", "kernels"), ("units",), when=_has_updates),
    Phase("storage", assign_storage, ("units", "known", "kernels", "is_function"), ("storage",)),
    EMISSION,
)
"""The phases from the shapes of arguments to a plan."""
GENERAL_GIVEN: Final = (
    *("nodes", "constants", "kernels", "is_function", "copied", "storage", "bind_fused"),
)
"""The input of the first phase of `GENERAL`."""
GENERAL: Final = (
    Phase("known", without_shapes, ("nodes", "constants"), ("known",)),
    UNITS,
    EMISSION,
)
"""The phases to the plan for any shapes, without fused kernels and without a block."""


def serial_machine_code(kernel: Kernel, sizes: tuple[int, ...]) -> Callable[..., bool]:
    """Compiles a kernel of one part, for this processor."""
    from sparkflow_runtime.codegen.cpu import loops

    return loops.compile_kernel(kernel).bind(sizes)


def machine_code(
    kernel: Kernel, sizes: tuple[int, ...], is_in_turn: bool = False
) -> Callable[..., bool]:
    """Compiles a kernel for the threads that kernels share, for this processor.

    Args:
        kernel: The kernel.
        sizes: The sizes of its iteration space.
        is_in_turn: Whether it runs in iterations of a machine-code loop, where threads are awake.
    """
    from sparkflow_runtime.codegen.cpu import loops
    from sparkflow_runtime.codegen.machine import threads

    part_s = loops.AWAKE_PART_S if is_in_turn else loops.PART_S
    return loops.compile_kernel(kernel).bind(sizes, threads.count(), part_s)


class Specialisations:
    """The plans of one partition by signature. Safe to use from several threads.

    `_lock` guards everything but the numbers in `statistics`, which may lose counts.

    Args:
        plan: Creates the plan for a signature.
        sightings: How often every signature is seen before it gets a plan; None for `EARLY` and
            `SIGHTINGS`.
        max_plans: See `MAX_PLANS`.
        resources: The variables; no plan is returned once one has an unexpected shape.
    """

    def __init__(
        self,
        plan: Callable[[Signature], Planned],
        sightings: int | None = None,
        max_plans: int = MAX_PLANS,
        resources: Resources | None = None,
    ) -> None:
        self.statistics = Statistics()
        self._plan = plan
        self._early = EARLY if sightings is None else 0
        self._sightings = SIGHTINGS if sightings is None else sightings
        self._max_plans = max_plans
        self._resources = resources or Resources()
        self._lock = threading.Lock()
        self._plans: OrderedDict[Signature, Planned | None] = OrderedDict()
        self._seen: dict[Signature, int] = {}

    @property
    def is_outdated(self) -> bool:
        """Whether a variable has a shape that no plan expects."""
        return self._resources.has_reshaped

    def find(self, args: Sequence[Any]) -> Planned | None:
        """Returns the plan for arguments of these shapes; None if there is none (yet)."""
        signature = _signature(args)
        plans = self._plans
        found = plans.get(signature)
        if self._resources.has_reshaped:
            self.statistics.general += 1
            return None
        if found is None:
            found = self._missed(signature)
            if found is None:
                self.statistics.general += 1
                return None
        elif len(plans) > 1:
            with self._lock:
                if signature in plans:
                    plans.move_to_end(signature)
        self.statistics.planned += 1
        return found

    def peek(self, args: Sequence[Any]) -> Planned | None:
        """Returns the existing plan for arguments of these shapes, if any."""
        return None if self.is_outdated else self._plans.get(_signature(args))

    def at_once(self, signature: Signature) -> Planned | None:
        """Returns the plan for a signature, created if necessary; None if that fails."""
        with self._lock:
            if signature not in self._plans:
                self._add(signature)
            return self._plans[signature]

    def _missed(self, signature: Signature) -> Planned | None:
        with self._lock:
            if signature in self._plans:
                return self._plans[signature]
            seen = self._seen.get(signature, 0) + 1
            if seen < self._sightings and len(self._plans) >= self._early:
                if len(self._seen) >= _MAX_SEEN:
                    self._seen.clear()
                self._seen[signature] = seen
                return None
            self._seen.pop(signature, None)
            self._add(signature)
            return self._plans[signature]

    def _add(self, signature: Signature) -> None:
        made = self._make(signature)
        if len(self._plans) >= self._max_plans:
            self._plans.popitem(last=False)
            self.statistics.dropped += 1
            self._sightings *= 2  # compiling for transient shapes does not pay
        self._plans[signature] = made

    def _make(self, signature: Signature) -> Planned | None:
        try:
            made = self._plan(signature)
        except Exception:  # the general program still runs; the log has the error
            self.statistics.failed += 1
            _log.exception("No plan could be made for arguments of the shapes %s", signature)
            return None
        self.statistics.plans += 1
        self.statistics.block_bytes = max(self.statistics.block_bytes, made.block_bytes)
        return made


def _signature(args: Sequence[Any]) -> Signature:
    try:
        return tuple([arg.shape for arg in args])
    except AttributeError:
        return tuple([getattr(arg, "shape", None) for arg in args])
