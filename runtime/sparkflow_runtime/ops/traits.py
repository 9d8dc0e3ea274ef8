"""What an op may declare besides shapes, kernel and gradient, by subject.

Passes and compilers know no op by its name: they query these. Every trait has a default that is
right for any op, and only costs speed, so that an op declares what it gains from. `trait_checks`
checks declarations for consistency; docs/own_ops.md has a table of what each trait is for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.ir.kernel import DTYPES
from sparkflow_runtime.dtypes import DType, bfloat16, float32, resource, variant
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.fusion import Fused, Fusion, NotFusableError
from sparkflow_runtime.ops.signature import Signature
from sparkflow_runtime.ops.value import WHOLE, Value, ValueRule
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu
    from sparkflow_runtime.ops.images import Images
    from sparkflow_runtime.ops.kernel import KernelContext
    from sparkflow_runtime.ops.list_access import ListAccess
    from sparkflow_runtime.ops.machine_call import CallSite, MachineCall

CHECKPOINTS: Final = "checkpoints"
FILES: Final = "files"
NETWORK: Final = "network"
PYTHON: Final = "python"
REACHES: Final[Mapping[str, str]] = {
    CHECKPOINTS: "reads or writes checkpoints",
    FILES: "reads or writes files",
    NETWORK: "talks to other tasks",
    PYTHON: "calls Python functions of the process",
}
"""What an op may access beyond its step."""

Item = TypeVar("Item")


class NodeView(Protocol):
    """A node as its kernel sees it."""

    @property
    def name(self) -> str:
        """The node's unique name in its graph."""

    @property
    def op(self) -> str:
        """The op type."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """All attributes, completed and canonical."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of the tensors that a list or a tape holds.

    Attributes:
        length: The number of elements of a list.
        element: The shape of all set elements of a list, if it is known.
        is_unset: Whether no element of a list is set.
        tensors: The shapes of a tape's tensors, by name.
    """

    length: int | None = None
    element: Shape = None
    is_unset: bool = False
    tensors: Mapping[str, Shape] = field(default_factory=dict)


NOTHING_HELD: Final = Held()
"""Of a list or a tape of which nothing is known."""


@dataclass(slots=True)
class Inference:
    """A node as shape inference sees it: static shapes, dtypes, attributes, known inputs."""

    shapes: Sequence[Shape]
    dtypes: Sequence[DType]
    attrs: Mapping[str, Any]
    known: Callable[[int], Value | None] = field(default=lambda _: None)
    variable: Callable[[int], Shape] = field(default=lambda _: None)
    held: Callable[[int], Held] = field(default=lambda _: NOTHING_HELD)

    def value(self, index: int) -> np.ndarray[Any, Any] | None:
        """The value of input `index` if the graph determines all of its elements, else None."""
        found = self.known(index)
        return None if found is None else found.whole

    def variable_shape(self, index: int) -> Shape:
        """The static shape of the variable whose handle is input `index`."""
        return self.variable(index)

    def with_rank(self, index: int, rank: int, name: str) -> tuple[int | None, ...]:
        """Returns the shape of an input that must have this rank.

        Raises:
            InvalidArgumentError: The rank is known and differs.
        """
        shape = self.shapes[index]
        if shape is None:
            return (None,) * rank
        if len(shape) != rank:
            raise InvalidArgumentError(
                message=f"Shape must be rank {rank} but is rank {len(shape)}: "
                f"{name} has shape {shapes.text(shape)}"
            )
        return shape


class _Described:
    """The base of all traits; `Op` provides the members."""

    op_type: str
    signature: Signature


class Effects(_Described):
    """What a node does besides computing its outputs, and what it may wait for.

    Attributes:
        stateful: Runs whenever fetched: never folded, merged or moved across steps.
        only_reads: Accepts references or handles and changes nothing behind them.
        takes_step: The bound kernel's first argument is the running `StepContext`.
        is_loop: Whether it may run forever by itself: its kernel receives the step, if there is
            one, and regularly checks whether it was cancelled.
        may_block: Whether the kernel may wait for another step or another node of its own step:
            independent nodes then go on. A kernel with `takes_step` has to wait in
            `resources.waiting.wait_for`, or within `resources.turns.others_go_on`; the waits of
            others are invisible.
        parks: Whether it only waits for a request of `resources.parking`, so that a run can be left
            there.
        checks: Whether it passes its input through unchanged, or fails if that is invalid.
        copyable: Whether a copy of the node is equivalent to the node, although it is stateful.
        draws: Whether it draws random numbers.
        reaches: What its kernel may access beyond the step, of `REACHES`: a graph from a file may
            have such an op only if the program names it. None is undeclared, which means
            everything. `registry.register` treats undeclared as "nothing" for sparkflow's own ops;
            tests verify that.
        paths: Names of the inputs that name the files it accesses.
    """

    stateful: ClassVar[bool] = False
    only_reads: ClassVar[bool] = False
    takes_step: ClassVar[bool] = False
    is_loop: ClassVar[bool] = False
    may_block: ClassVar[bool] = False
    parks: ClassVar[bool] = False
    checks: ClassVar[bool] = False
    copyable: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    reaches: frozenset[str] | None = None
    paths: ClassVar[tuple[str, ...]] = ()

    def reach(self, attrs: Mapping[str, Any]) -> Set[str] | None:
        """The part of `reaches` that applies to a node with these attributes."""
        return self.reaches


class Memory(Effects):
    """Which memory the outputs may share, and whether inputs are kept.

    Attributes:
        keeps_inputs: Whether the kernel of a stateful op may keep its input arrays after it
            returns; those of other ops do not.
        ends_with_step: Whether kept inputs are released with the step, and only come out by
            `aliases`.
        aliases: Names of the inputs whose memory an output may share, as a view or the input
            itself. None is undeclared: such an op may share any input, and keep it.
            `registry.register` treats undeclared as "none" for sparkflow's own ops; tests verify
            that.
        overwrites: The number of the input whose memory the output may reuse if nothing reads it
            afterwards: the kernel of `bind_out` then gets it for both. None for no input.
        is_view: Whether shapes and known inputs alone determine if an output shares memory with an
            input, and its offset: the view is then created once, not in every step.
    """

    keeps_inputs: ClassVar[bool] = True
    ends_with_step: ClassVar[bool] = False
    aliases: frozenset[str] | None = None
    overwrites: ClassVar[int | None] = None
    is_view: ClassVar[bool] = False

    def shared(self, node: NodeView, inputs: Sequence[Item]) -> Sequence[Item]:
        """Returns the inputs of a node whose memory its outputs may share.

        Args:
            node: The node.
            inputs: One item per input, lists flattened.
        """
        if self.aliases is None:
            return inputs
        if not self.aliases:
            return ()
        names = self.signature.input_names(node.attrs)
        return [item for item, name in zip(inputs, names, strict=True) if name in self.aliases]

    def may_keep_inputs(self, node: NodeView) -> bool:
        """Whether the arrays may be kept after the node has run.

        True also for ops that `hands_on`, and ops that do not declare their outputs' memory.
        """
        return self.aliases is None or self.hands_on(node)

    def lends(self, node: NodeView) -> Sequence[int]:
        """The numbers of inputs that are read in place after the node has run.

        They are the memory of variables, or else must not be reused.
        """
        return ()

    def hands_on(self, node: NodeView) -> bool:
        """Whether others may receive the inputs after the node has run, and may wait for them.

        True for stateful ops, unless declared otherwise, and for handles and variants.
        """
        if (self.stateful or self.takes_step) and self.keeps_inputs:
            return True
        return any(
            dtype.base in (variant, resource) for dtype in self.signature.output_dtypes(node.attrs)
        )

    def outlives_step(self, node: NodeView) -> bool:
        """Whether the inputs may be kept after the step."""
        if self.aliases is None:
            return True
        return (self.stateful or self.takes_step) and self.keeps_inputs and not self.ends_with_step


class Arithmetic(_Described):
    """How outputs follow from inputs, so that a node may be moved, merged, or left out.

    Attributes:
        commutative: Whether the two inputs may be swapped, except strings.
        passes_on: Whether it only passes each input through as the output of the same number.
        reshapes: Whether the only output has the elements of the first input, in the same order.
        elementwise: Whether an output element depends only on the input elements at the same
            position.
        broadcasts: Whether it is elementwise, and broadcasts its inputs as in numpy.
        reduction: Whether it reduces along the axes in the second input, and a single element to
            itself.
        repeats: The input whose elements the output repeats, by broadcasting or tiling; its size
            follows from shapes and from other inputs.
        fills: The constant that fills the output, if it is always the same.
        by_segment: The op that applies this reduction to rows of the same segment, given by a
            second input; a third input is the number of segments.
        takes_ragged: Whether a row of the output depends only on the same row of the inputs, so
            that it can be applied to a ragged tensor's innermost values, like elementwise ops.
        images: Which arguments are images in the attribute's `data_format`.
        value_rule: What is known about the outputs if the inputs' values are partly known.
        flops: Floating-point operations per element of the first output, see `float_operations`.
    """

    commutative: ClassVar[bool] = False
    passes_on: ClassVar[bool] = False
    reshapes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False
    broadcasts: ClassVar[bool] = False
    reduction: ClassVar[bool] = False
    repeats: ClassVar[str | None] = None
    fills: ClassVar[int | None] = None
    by_segment: ClassVar[str | None] = None
    takes_ragged: ClassVar[bool] = False
    images: ClassVar[Images | None] = None
    value_rule: ClassVar[ValueRule] = WHOLE
    flops: ClassVar[int] = 0

    def matrix_product(self, node: NodeView) -> tuple[bool, bool] | None:
        """Whether each factor is transposed first, if the node is a matrix product.

        They may be stacks of matrices; complex ones may be conjugated as well.
        """
        return None

    def list_access(self, node: NodeView) -> ListAccess | None:
        """The node's access to a list of tensors, if it does nothing else."""
        return None

    def holds(self, node: Inference) -> Sequence[Held]:
        """What the lists and tapes among the outputs hold, per output; () if nothing is known.

        `node.held` has that of the inputs.
        """
        return ()

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """The number of floating-point operations of a node, as counted by TensorFlow's profiler.

        Args:
            node: The node.
            outputs: The static shapes of its outputs.

        Raises:
            UnknownSizeError: They depend on an unknown size.
        """
        return self.flops * shapes.size(outputs[0]) if self.flops and outputs else 0


class Structure(_Described):
    """Nodes that are not plain operations of a step.

    Attributes:
        is_variable: Whether it returns the reference or handle of the variable that its attributes
            `container` and `shared_name` name, with their `dtype` and `shape`.
        is_placeholder: Whether a step has to feed its output.
        is_collective: Whether several devices run it together, so that it is split into a start and
            a wait (`passes.collectives`).
        is_frame: Whether it is control flow of TensorFlow's first releases, which is converted to
            functions before anything else (`passes.raising`).
    """

    is_variable: ClassVar[bool] = False
    is_placeholder: ClassVar[bool] = False
    is_collective: ClassVar[bool] = False
    is_frame: ClassVar[bool] = False


class Training(_Described):
    """What it does with variables, their rows and their gradients.

    Attributes:
        reads_variable: Whether the output is the value of the variable of which the first input is
            the reference or the handle.
        applies_gradients: Whether it updates the variable of its first input by gradients among the
            other inputs.
        trains: Whether it is an optimizer's update, which is run for its effect alone.
        sums_rows: Names of the inputs that are rows and their ids, if rows of equal ids count as
            their sum.
        adds_up_rows: Whether its kernel sums rows of equal ids before it uses them.
        collects_gradients: Whether it adds a gradient to the first input's resource, which
            accumulates those of several steps.
        gives_collected: Whether its output comes from the gradients accumulated there.
        looks_up_rows: Whether the output is the rows of the first input, or of its variable, for
            the ids in the second one.
        reads_rows: Whether only the rows of the first input that the second one names are read.
        reads_parts: Whether the first output is rows or slices of the first input's resource.
        tolerates_rounding: Whether its inputs may be rounded to 16 bits if its output is applied to
            a variable that is sent so (`passes.wire_dtypes`).
        exact_inputs: Whether its inputs must not be rounded, whatever they are read from.
    """

    reads_variable: ClassVar[bool] = False
    applies_gradients: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    sums_rows: ClassVar[tuple[str, str] | None] = None
    adds_up_rows: ClassVar[bool] = False
    collects_gradients: ClassVar[bool] = False
    gives_collected: ClassVar[bool] = False
    looks_up_rows: ClassVar[bool] = False
    reads_rows: ClassVar[bool] = False
    reads_parts: ClassVar[bool] = False
    tolerates_rounding: ClassVar[bool] = False
    exact_inputs: ClassVar[bool] = False

    def row_gradients(self, node: NodeView) -> Sequence[tuple[int, int]]:
        """Numbers of the inputs that are rows and of those that are their ids, see `sums_rows`."""
        if self.sums_rows is None:
            return ()
        names = [arg.name for arg in self.signature.inputs]
        rows, ids = self.sums_rows
        return [(names.index(rows), names.index(ids))]

    def met_gradients(self, node: NodeView) -> Sequence[int]:
        """Numbers of the inputs that are gradients of several replicas, which meet in this node."""
        return ()


class Execution(_Described):
    """How its kernels run: on which devices, into given arrays, as part of a fused one.

    Attributes:
        widens: The dtypes of `NARROW` that `bind_kernel` replaces by float32 for the kernel, on a
            host; otherwise the kernel itself must support them. None if the bits count.
        host_inputs: Names of the inputs that the kernel reads as Python numbers: if known, they
            stay on the host, so that no step waits for the GPU to send them.
        capturable: Whether the GPU kernel only launches, and the same in every step, so that a CUDA
            graph may replay it: it reads nothing from the host, and does not branch on values.
        quiet: Whether it computes nothing that numpy could warn about.
        lasting: Whether equal inputs may yield the same object in every step, because it is
            immutable, like lists.
        fuse_over: The input whose shape is the iteration space if the op is fused; None for the
            first output.
    """

    widens: ClassVar[Collection[DType]] = frozenset({bfloat16})
    host_inputs: ClassVar[frozenset[str]] = frozenset()
    capturable: ClassVar[bool] = False
    quiet: ClassVar[bool] = False
    lasting: ClassVar[bool] = False
    fuse_over: ClassVar[int | None] = None

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """Like `bind`, for a kernel that fills given arrays, without large allocations.

        Its arguments are the input arrays, then one C-contiguous array per output, with the
        output's shape and dtype, not overlapping any input except the one it `overwrites`; its
        result is ignored.

        Returns:
            The kernel; None if there is none, as here.
        """
        return None

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., Any] | None:
        """As `bind_out`, for a GPU."""
        return None

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """The node as one call of machine code, for compiled loops; None if it is not one.

        It is queried only if machine code is available for this processor.
        """
        return None

    def is_fusable(self, node: NodeView) -> bool:
        """Whether `fuse` may apply to this node; cheap.

        By default, if there is a `fuse` and kernels support the dtype `T`.
        """
        return type(self).fuse is not Execution.fuse and node.attrs.get("T", float32) in DTYPES

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The outputs as values of a kernel.

        Raises:
            NotFusableError: It cannot be part of that kernel; the default.
        """
        raise NotFusableError("the op has no instructions")
