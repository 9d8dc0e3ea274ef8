"""Plans on a GPU: fused kernels in CUDA, constants on the GPU, steady plans as CUDA graphs.

The same plans as on a CPU (`specialise`), in memory of the GPU. A partition's program runs on its
own stream (`on_stream`). Without a plan, the general program runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sparkflow_runtime.codegen.gpu.cuda import CudaProgram
from sparkflow_runtime.codegen.ir.kernel import Kernel
from sparkflow_runtime.compiler.location import located
from sparkflow_runtime.compiler.planned import Planned
from sparkflow_runtime.compiler.specialise import Specialisations, make_plan
from sparkflow_runtime.compiler.storage import Kernels
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.device.gpu_graph import SteadyPlan
from sparkflow_runtime.device.gpu_kernels import GpuKernel
from sparkflow_runtime.device.pinned import PinnedStaging
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.node import RETVAL, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.variable import Variable


@dataclass(frozen=True, slots=True)
class CardPlan(Planned):
    """A plan that is replayed once it is steady."""

    steady: SteadyPlan | None = None
    staging: PinnedStaging | None = None
    current_stream: Callable[[], Any] | None = None

    def __call__(self, step: Any, *args: Any) -> tuple[Any, ...]:
        """Runs one step on the current stream: host arrays in, host arrays out."""
        assert self.steady is not None
        assert self.staging is not None
        assert self.current_stream is not None
        values = self.steady.run(self.current_stream(), self.staging, args, step)
        if not self.late:
            return values
        count = len(values) - len(self.late)
        for node, flag in zip(self.late, values[count:], strict=True):
            if flag:
                raise located(_found_late(node), node)
        return values[:count]


def _found_late(node: Node) -> InvalidArgumentError:
    return InvalidArgumentError(
        message=f"{node.op} got invalid values. On a GPU this is detected only after the step, "
        "which has already updated its variables; run it on a CPU to see the values"
    )


class CardCompiler:
    """Creates the plans of a partition, or of a function, for a GPU.

    Args:
        nodes: In execution order.
        context: The context of kernels; it has a `gpu`.
        kernels: The kernels of the nodes, by name.
        is_function: Whether arguments and results stay on the GPU.
        copied: The reads of variables that must be copies, see `reads`.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        context: KernelContext,
        kernels: Mapping[str, Callable[..., Any]],
        is_function: bool,
        copied: set[tuple[str, int]],
    ) -> None:
        assert context.gpu is not None
        self._gpu: Gpu = context.gpu
        self._nodes = nodes
        self._bound = kernels
        self._is_function = is_function
        self._copied_reads = copied
        self._variables: dict[str, Variable] = {}
        self._takes_step = any(registry.lookup(node.op).takes_step for node in nodes)
        self._compiled: dict[tuple[Kernel, str], GpuKernel] = {}

    def plan(self, shapes: Mapping[int, Any]) -> Planned:
        """Returns the plan for arguments of these shapes, by the index of their `_Arg`."""
        kernels = Kernels(
            self._bind,
            self._bind_out,
            self._gpu.cupy,
            self._gpu.cupy.asarray,
            _is_on_host,
            late_checks=True,
            copies_reads=self._is_function,
        )
        planned = make_plan(
            self._nodes, shapes, kernels, self._is_function, self._copied_reads, self._compile
        )
        if self._is_function:
            return planned
        may_record = not self._takes_step and _is_capturable(planned)
        steady = SteadyPlan(
            self._gpu.cupy, planned, lambda: list(self._variables.values()), may_record
        )
        parts = {
            field.name: getattr(planned, field.name) for field in fields(planned) if field.init
        }
        stream = self._gpu.cupy.cuda.get_current_stream
        return CardPlan(**parts, steady=steady, staging=self._gpu.staging, current_stream=stream)

    def _bind(self, node: Node) -> Callable[..., Any]:
        kernel = self._bound[node.name]
        if node.op == RETVAL:
            return self._copied
        if not registry.lookup(node.op).is_variable:
            return kernel

        def noted() -> Any:
            variable = self._variables[node.name] = kernel()
            return variable

        return noted

    def _bind_out(self, node: Node) -> Callable[..., Any] | None:
        return registry.lookup(node.op).bind_out_gpu(node, self._gpu)

    def _copied(self, value: Any) -> Any:
        """Returns a snapshot of a result, unaffected by later updates of the array."""
        return value.copy() if isinstance(value, self._gpu.cupy.ndarray) else value

    def _compile(self, kernel: Kernel, sizes: tuple[int, ...]) -> Callable[..., bool]:
        key = (
            kernel,
            repr([each.value for each in kernel.instructions]),
        )  # repr distinguishes 0 and -0
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = GpuKernel(self._gpu.cupy, CudaProgram(kernel))
        return found.bind(sizes)


def _is_capturable(planned: Planned) -> bool:
    return all(registry.lookup(op).capturable for op in planned.alone)


def _is_on_host(node: Node, number: int) -> bool:
    """Whether a kernel reads an input as Python numbers, which would wait for the GPU."""
    op = registry.lookup(node.op)
    return bool(op.host_inputs) and (op.signature.input_names(node.attrs)[number] in op.host_inputs)


def card_specialisations(
    nodes: Sequence[Node],
    context: KernelContext,
    kernels: Mapping[str, Callable[..., Any]],
    order: Sequence[int],
    is_function: bool,
    copied: set[tuple[str, int]],
) -> Specialisations:
    """The plans of a partition on a GPU, see `CardCompiler`.

    Args:
        nodes: See there.
        context: See there.
        kernels: See there.
        order: The step's argument index of each parameter.
        is_function: See there.
        copied: See there.
    """
    compiler = CardCompiler(nodes, context, kernels, is_function, copied)
    return Specialisations(lambda shapes: compiler.plan(dict(zip(order, shapes, strict=True))))
