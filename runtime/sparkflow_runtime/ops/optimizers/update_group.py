"""Updates of many variables by one rule with the same scalars, in one machine code call.

Calling one update's kernel has an overhead of some microseconds, more than the update of a small
variable. A compiler may group nodes of one op type with the same attributes and scalars.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows import rule_groups
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import NodeView
from sparkflow_runtime.ops.optimizers import native_update
from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate
from sparkflow_runtime.ops.optimizers.native_update import Arguments
from sparkflow_runtime.ops.optimizers.update import LockOrder
from sparkflow_runtime.ops.registry import lookup

_SHARED_ELEMENTS: Final = 1 << 18
"""Smaller groups are updated by a single thread."""
_SHORT_ELEMENTS: Final = 1 << 15
"""Larger groups are updated without holding the GIL."""

Sets = Sequence[Sequence[Any]]


def bind(
    nodes: Sequence[NodeView],
    context: KernelContext,
    kernels: Sequence[Callable[..., Any]] | None = None,
) -> Callable[[Sets], None] | None:
    """Returns one kernel for several nodes.

    Args:
        nodes: Nodes of one op type, `ApplyX` or `ResourceApplyX`, with equal attributes.
        context: Their kernel context.
        kernels: Their own kernels, as a fallback; None to bind them here.

    Returns:
        A function of the inputs of each node, in order. The scalars must be the same for all nodes:
        those of the first one are used. It has the effect of calling the nodes' kernels in order,
        except that all variables are locked together, and raises the same errors. None if there is
        no such kernel.
    """
    op = lookup(nodes[0].op).with_references
    if context.xp is not np or not isinstance(op, DenseUpdate):
        return None
    arguments = native_update.arguments(op, nodes[0].attrs["T"], nodes[0].attrs)
    if arguments is None or arguments.indices is not None:
        return None
    own = kernels or [op.bind(node, context) for node in nodes]
    return _Group(arguments, own)


_SHAPE = operator.attrgetter("shape")


class _Group:
    """The kernel of a group, bound to the shapes that it saw last."""

    def __init__(self, arguments: Arguments, kernels: Sequence[Callable[..., Any]]) -> None:
        self._arguments = arguments
        self._kernels = kernels
        self._locks = LockOrder()
        self._shapes: Any = None
        self._is_root = False
        self._run: Callable[..., bool] | None = None

    def __call__(self, sets: Sets) -> None:
        if not self._together(sets):
            for kernel, inputs in zip(self._kernels, sets, strict=True):
                kernel(*inputs)

    def _together(self, sets: Sets) -> bool:
        count, grad = self._arguments.variables, self._arguments.grad
        if count == 1:
            variables = tuple([each[0] for each in sets])
        else:
            variables = tuple(itertools.chain.from_iterable([each[:count] for each in sets]))
        scalars = [np.asarray(sets[0][i]) for i in self._arguments.scalars]
        held = self._locks.of(variables)
        for lock in held:
            lock.acquire()
        try:
            if len(held) < len(variables):
                return False  # one occurs twice: its updates must be sequential
            tables = [variable.array for variable in variables]
            updates = [inputs[grad] for inputs in sets]
            if any(map(operator.is_, tables, itertools.repeat(None))):
                return False
            shapes = (list(map(_SHAPE, tables)), list(map(_SHAPE, updates)))
            is_root = self._arguments.needs_root_only(sets[0])
            if self._run is None or shapes != self._shapes or is_root != self._is_root:
                self._run = self._bound(*shapes, is_root)
                self._shapes, self._is_root = shapes, is_root
            return self._run is not None and self._run(*scalars, *tables, *updates)
        finally:
            for lock in held:
                lock.release()

    def _bound(
        self, tables: list[Any], updates: list[Any], is_root: bool
    ) -> Callable[..., bool] | None:
        """The kernel for variables and gradients of these shapes; None if they do not fit."""
        count = self._arguments.variables
        expected = [shape for shape in updates for _ in range(count)]
        if tables != expected:
            return None
        sizes = [math.prod(shape) for shape in updates]
        counts = [1] * len(self._arguments.scalars)
        counts += [math.prod(shape) for shape in tables] + sizes
        total = sum(sizes)
        return native.body(rule_groups.group(self._arguments.rule(is_root))).bind(
            [len(updates), *sizes],
            counts,
            len(updates),
            threads.count() if total >= _SHARED_ELEMENTS else 1,
            releases_gil=total > _SHORT_ELEMENTS,
        )
