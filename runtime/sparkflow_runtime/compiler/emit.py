"""Writes the straight-line function of a plan.

Every unit is one line, so that a traceback's line number names the node that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.compiler.planned import FILE, Called, Planned, SlotArray, StaticView
from sparkflow_runtime.compiler.storage import Kernels, Storage
from sparkflow_runtime.errors import InternalError
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.once import once
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.distributed.transfer import fetched, handed_over
from sparkflow_runtime.ops.op import Op

if TYPE_CHECKING:
    from sparkflow_runtime.compiler.fusion.finish import FusedKernel, Output

BindKernel = Callable[["FusedKernel"], Callable[..., bool]]


def emit(
    units: Sequence[Unit],
    known: Mapping[Endpoint, Known],
    storage: Storage,
    kernels: Kernels,
    bind_fused: BindKernel,
    copied_reads: set[tuple[str, int]],
    is_function: bool,
) -> Planned:
    """Returns the function of a plan.

    Args:
        units: Its calls, in order.
        known: What is known of its tensors.
        storage: Where they are stored.
        kernels: The kernels of its nodes.
        bind_fused: Makes the machine code of fused kernels callable.
        copied_reads: The reads of variables (node name, input number) that must be copies.
        is_function: Whether this is a function of the library, see `program`.
    """
    return _Emitter(units, known, storage, kernels, bind_fused, copied_reads, is_function).emit()


@dataclass(slots=True)
class _Emitter:
    """The function while it is written; for the arguments see `emit`."""

    units: Sequence[Unit]
    known: Mapping[Endpoint, Known]
    storage: Storage
    kernels: Kernels
    bind_fused: BindKernel
    copied_reads: set[tuple[str, int]]
    is_function: bool
    bound: dict[str, Any] = field(default_factory=lambda: {"one": only})
    registers: dict[Endpoint, str] = field(default_factory=dict)
    locals: set[str] = field(default_factory=set)
    slots: list[SlotArray] = field(default_factory=list)
    views: list[StaticView] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    line_nodes: list[Node | None] = field(default_factory=lambda: [None, None])
    parameters: list[tuple[int, str]] = field(default_factory=list)
    results: list[tuple[int, str]] = field(default_factory=list)
    last_use: dict[Endpoint, int] = field(default_factory=dict)
    alone: set[str] = field(default_factory=set)
    borrowed: set[Endpoint] = field(default_factory=set)  # may be a variable's own memory
    late: list[tuple[str, Node]] = field(default_factory=list)
    calls: dict[str, Called] = field(default_factory=dict)
    variables: dict[str, Node] = field(default_factory=dict)
    count: int = 0

    def emit(self) -> Planned:
        for number, unit in enumerate(self.units):
            for endpoint in unit.inputs:
                self.last_use[endpoint] = number
        for number, unit in enumerate(self.units):
            if unit.group:
                self._group(number, unit)
            elif unit.fused is None:
                self._node(number, unit.node)
            else:
                self._fused(number, unit, unit.fused)
        if self.is_function:  # called by position
            self.parameters.sort()
            self.results.sort()
        parameters = "".join(f", {name}" for _, name in self.parameters)
        returned = [*(name for _, name in self.results), *(flag for flag, _ in self.late)]
        results = "".join(f"{name}, " for name in returned)
        source = "\n".join([f"def run(step{parameters}):", *self.lines, f"    return ({results})"])
        names: dict[str, Any] = {}
        # The source contains only register names created here, nothing from the graph.
        exec(compile(source, FILE, "exec"), names)  # noqa: S102
        return Planned(
            names["run"].__code__,
            self.bound,
            self.slots,
            self.views,
            self.storage.layout.size_bytes,
            (*self.line_nodes, None),
            tuple(index for index, _ in self.parameters),
            tuple(index for index, _ in self.results),
            self.kernels.xp,
            frozenset(self.alone),
            tuple(node for _, node in self.late),
            self.calls,
            self.variables,
        )

    # ------------------------------------------------------------------------------ registers

    def _name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def _global(self, prefix: str, value: Any) -> str:
        name = self._name(prefix)
        self.bound[name] = value
        return name

    def _local(self, endpoint: Endpoint) -> str:
        if endpoint not in self.last_use:
            return "_"
        name = self.registers[endpoint] = self._name("v")
        self.locals.add(name)
        return name

    def _slot(self, endpoint: Endpoint) -> str:
        name = self.registers[endpoint] = self._name("b")
        known = self.known[endpoint]
        offset = self.storage.layout.offsets[self.storage.slots[endpoint]]
        shape = known.full_shape
        assert shape is not None
        self.slots.append(SlotArray(name, offset, shape, known.dtype.as_numpy_dtype))
        return name

    def _register(self, endpoint: Endpoint) -> str:
        found = self.registers.get(endpoint)
        if found is None:
            value = self.known[endpoint].value
            if value is None:
                raise InternalError(message=f"{endpoint} is read before it is computed")
            found = self.registers[endpoint] = self._global("c", self.kernels.constant(value))
        return found

    def _arguments(self, node: Node, op: Op) -> list[str]:
        arguments = ["step"] if op.takes_step else []
        expected = op.signature.input_dtypes(node.attrs)
        for number, (endpoint, dtype) in enumerate(zip(node.inputs, expected, strict=True)):
            value = self.known[endpoint].value
            if value is not None and self.kernels.reads_on_host(node, number):
                arguments.append(self._global("c", value))
                continue
            register = self._register(endpoint)
            if self.known[endpoint].dtype.is_ref and not dtype.is_ref:
                is_copied = (node.name, number) in self.copied_reads
                copied = self.kernels.copies_reads or is_copied
                register += ".read().copy()" if copied else ".read()"
            arguments.append(register)
        return arguments

    def _line(self, number: int, unit: Unit, text: str, node: Node | None = None) -> None:
        dead = []
        for endpoint in dict.fromkeys(unit.inputs):
            register = self.registers.get(endpoint)
            if register in self.locals and self.last_use[endpoint] == number:
                dead.append(register)
                self.locals.discard(register)
        if dead:
            text += f"; del {', '.join(dead)}"
        self.lines.append(f"    {text}")
        self.line_nodes.append(node or unit.node)

    # ------------------------------------------------------------------------------ units

    def _node(self, number: int, node: Node) -> None:
        op = registry.lookup(node.op)
        count = len(op.signature.output_dtypes(node.attrs))
        outputs = [Endpoint(node.name, slot) for slot in range(count)]
        unit = self.units[number]
        shared = op.shared(node, node.inputs)
        if any(self.known[each].dtype.is_ref or each in self.borrowed for each in shared):
            self.borrowed.update(outputs)
        if node.op == ARG:
            parameter = self._name("a")
            self.parameters.append((node.attrs["index"], parameter))
            taken = parameter
            if self.kernels.calls_all and not self.is_function:
                taken = f"{self._global('k', self.kernels.bind(node))}({parameter})"
            self._line(number, unit, f"{self._local(outputs[0])} = {taken}")
            return
        arguments = self._arguments(node, op)
        if node.op == RETVAL:
            self._result(number, node, arguments[0])
            return
        if outputs and outputs[0] in self.storage.views:
            for endpoint in outputs:
                self.registers[endpoint] = self._name("w")
            names = tuple(self.registers[endpoint] for endpoint in outputs)
            several = makes_list(op)
            self.views.append(StaticView(names, self.kernels.bind(node), tuple(arguments), several))
            return
        self.alone.add(node.op)
        if not self.kernels.calls_all:
            if op.passes_on and count == 1 and node.name not in self.storage.filling:
                self._line(number, unit, f"{self._local(outputs[0])} = {arguments[0]}")
                return
            if op.is_variable and op.signature.gives_references:
                given = self._global("c", self.kernels.bind(node)())
                self.registers[outputs[0]] = given
                self.variables[given] = node
                return
        if node.name in self.storage.filling:
            kernel = self._global("k", self.storage.filling[node.name])
            self.calls[kernel] = Called(node, len(outputs))
            targets = [self._target(number, unit, endpoint) for endpoint in outputs]
            self._line(number, unit, f"{kernel}({', '.join([*arguments, *targets])})")
            return
        if op.lasting and self._is_made_once(node, outputs):
            return
        kernel = self._global("k", self._kernel(node, op, outputs))
        self.calls[kernel] = Called(node)
        call = f"{kernel}({', '.join(arguments)})"
        names_ = [self._local(endpoint) for endpoint in outputs]
        if not names_:
            self._line(number, unit, call)
        elif makes_list(op) and len(names_) == 1:
            self._line(number, unit, f"{names_[0]} = one({call})")
        else:
            self._line(number, unit, f"{', '.join(names_)} = {call}")

    def _is_made_once(self, node: Node, outputs: Sequence[Endpoint]) -> bool:
        """Whether the outputs have been computed, once for all steps, as the inputs are known."""
        values = [self.known[each].value for each in node.inputs]
        if self.kernels.calls_all or len(outputs) != 1 or any(value is None for value in values):
            return False
        try:
            made = self.kernels.bind(node)(*map(self.kernels.constant, values))
        except Exception:  # any error: the node raises it again when it runs
            return False
        self.registers[outputs[0]] = self._global("c", made)
        return True

    def _kernel(self, node: Node, op: Op, outputs: Sequence[Endpoint]) -> Callable[..., Any]:
        """Emits the kernel of a single node."""
        shape = self.known[outputs[0]].full_shape if op.reshapes else None
        if shape is None or self.kernels.xp is not np:
            return self.kernels.bind(node)
        return lambda array, *_: array.reshape(shape)

    def _group(self, number: int, unit: Unit) -> None:
        """Emits several updates; each returns the variable that it received."""
        sets = []
        for node in unit.group:
            arguments = self._arguments(node, registry.lookup(node.op))
            sets.append(f"({', '.join(arguments)})")
            given_on = Endpoint(node.name, 0)
            if given_on in self.last_use:
                variable = self._register(node.inputs[0])
                self.lines.append(f"    {self._local(given_on)} = {variable}")
                self.line_nodes.append(node)
        self.alone.add(unit.node.op)
        kernel = self._global("k", unit.kernel)
        self.calls[kernel] = Called(_standing_for(unit.group, f"{unit.node.op}*{len(sets)}"))
        self._line(number, unit, f"{kernel}(({', '.join(sets)}))")

    def _target(self, number: int, unit: Unit, endpoint: Endpoint) -> str:
        """Returns the array to fill; emits the creation of new ones."""
        if endpoint in self.storage.slots:
            return self._slot(endpoint)
        known = self.known[endpoint]
        make = self._global(
            "e", partial(self.kernels.xp.empty, known.full_shape, known.dtype.as_numpy_dtype)
        )
        name = self.registers[endpoint] = self._name("v")
        if endpoint in self.last_use:
            self.locals.add(name)
        self.lines.append(f"    {name} = {make}()")
        self.line_nodes.append(unit.node)
        return name

    def _result(self, number: int, node: Node, register: str) -> None:
        (endpoint,) = node.inputs
        name = self._name("r")
        self.results.append((node.attrs["index"], name))
        unit = self.units[number]
        given_away = (
            endpoint in self.storage.fresh
            and endpoint not in self.storage.kept
            and self.last_use[endpoint] == number
        )
        if self.is_function or given_away:
            self._line(number, unit, f"{name} = {register}")
        else:
            kernel = self.kernels.bind(node)
            if kernel is fetched and register in self.locals and self.last_use[endpoint] == number:
                kernel = handed_over
            self._line(number, unit, f"{name} = {self._global('k', kernel)}({register})")

    def _fused(self, number: int, unit: Unit, fused: FusedKernel) -> None:
        arguments = []
        for endpoint in fused.inputs:
            register = self._register(endpoint)
            arguments.append(
                f"{register}.read()" if self.known[endpoint].dtype.is_ref else register
            )
        targets = []
        for output in fused.outputs:
            first, *others = output.endpoints
            targets.append(self._target(number, unit, first))
            for endpoint in others:
                self._other_name(number, unit, endpoint, first)
        for endpoint, source in fused.copies.items():
            self._other_name(number, unit, endpoint, source)
        flags = []
        for check in fused.checks:
            flag = self._name("f")
            self.views.append(
                StaticView((flag,), partial(self.kernels.xp.zeros, (), np.int32), (), False)
            )
            targets.append(flag)
            if self.kernels.late_checks and not self.is_function:
                self.late.append((flag, check.node))
            else:
                flags.append((flag, check))
                self.alone.add(check.node.op)
        if fused.kernel.outputs:
            call = ", ".join([*arguments, *targets])
            dtypes = [operand.dtype.as_numpy_dtype for operand in fused.kernel.inputs]
            # A kernel with threads has its own memory: one for each frame.
            run, retry = self._name("k"), self._name("s")
            ops = "+".join(node.op for node in fused.nodes)
            self.calls[run] = Called(_standing_for(fused.nodes, ops), len(targets))
            self.views.append(StaticView((run,), partial(self.bind_fused, fused), (), False))
            self.views.append(
                StaticView((retry,), partial(_retrying, self.kernels.xp, dtypes), (run,), False)
            )
            lines = [(unit.node, f"{run}({call}) or {retry}({call})")]
            for output, target in zip(fused.outputs, targets, strict=False):
                if output.divisor is not None:
                    divide = self._global("d", self.kernels.xp.divide)
                    value = np.array(output.divisor, self._dtype(output))
                    divisor = self._global("c", self.kernels.constant(value))
                    lines.append((unit.node, f"{divide}({target}, {divisor}, {target})"))
            for flag, check in flags:
                fail = self._global("f", check.check.fail)
                given = ", ".join(self._register(each) for each in check.inputs)
                lines.append((check.node, f"{flag} and {fail}({given})"))
            for node, text in lines[:-1]:
                self.lines.append(f"    {text}")
                self.line_nodes.append(node)
            self._line(number, unit, lines[-1][1], lines[-1][0])

    def _dtype(self, output: Output) -> Any:
        return self.known[output.endpoints[0]].dtype.as_numpy_dtype

    def _other_name(self, number: int, unit: Unit, endpoint: Endpoint, source: Endpoint) -> None:
        """Emits an alias of a tensor with other dimensions of size 1."""
        shape = self.known[endpoint].full_shape
        assert shape is not None
        register = self._register(source)
        if self.storage.is_in_block(source):
            name = self.registers[endpoint] = self._name("w")
            self.views.append(StaticView((name,), partial(_reshaped, shape), (register,), False))
            return
        if self.known[source].dtype.is_ref:
            register += ".read().copy()"
        elif source in self.borrowed:  # the node would have returned a new array
            register += ".copy()"
        reshape = self._global("h", partial(_reshaped, shape))
        self.lines.append(f"    {self._local(endpoint)} = {reshape}({register})")
        self.line_nodes.append(unit.node)


def _standing_for(nodes: Sequence[Node], ops: str) -> Node:
    """Returns a node that represents several: the last one, with all their inputs."""
    names = {node.name for node in nodes}
    inputs = dict.fromkeys(e for node in nodes for e in node.inputs if e.node not in names)
    last = nodes[-1]
    return Node(last.name, ops, tuple(inputs), (), last.device, last.attrs)


def _reshaped(shape: tuple[int, ...], array: Any) -> Any:
    return np.reshape(array, shape)


def _retrying(xp: Any, dtypes: Sequence[Any], kernel: Callable[..., bool]) -> Callable[..., None]:
    """Returns the fallback of a kernel that rejects its arguments: itself, on contiguous copies."""

    def retry(*arrays: Any) -> None:
        dense = _dense_array() if xp is np else xp.ascontiguousarray
        inputs = [dense(array, dtype) for array, dtype in zip(arrays, dtypes, strict=False)]
        if not kernel(*inputs, *arrays[len(inputs) :]):
            shapes = [np.shape(array) for array in arrays]
            raise InternalError(
                message=f"A fused kernel got arrays of the unexpected shapes {shapes}"
            )

    return retry


@once
def _dense_array() -> Callable[[Any, Any], Any]:
    from sparkflow_runtime.ops.kernels.filling import dense_array  # many programs have no views

    return dense_array


def makes_list(op: Op) -> bool:
    """Whether an op's kernel returns a sequence of outputs, even of one."""
    return len(op.signature.outputs) > 1 or any(arg.is_list for arg in op.signature.outputs)


def only(values: Any) -> Any:
    """Returns the single output of an op whose output is a list of length one."""
    return values[0] if isinstance(values, tuple | list) else values
