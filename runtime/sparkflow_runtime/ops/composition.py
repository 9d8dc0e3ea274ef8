"""Ops that are compositions of other ops: `define` gives the formula, the rest follows from it.

    @register
    class EuclideanNorm(Composed):
        inputs, outputs, attrs = ...

        def define(self, g, x, axes, *, keep_dims):
            return g.Sqrt(g.Sum(g.Square(x), axes, keep_dims=keep_dims))

`g` has the interface of a gradient's builder. The formula is traced once per combination of
attributes, to a sequence of steps from which shapes, CPU and GPU kernels, fused kernels and
gradients of any order are derived. The node stays one node with its own name and type, in graphs as
in plans. What a class defines itself takes precedence over what is derived, such as a gradient
computed from the output.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sparkflow_runtime.dtypes import DType, as_dtype
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.evaluation import NamedNode, computed, evaluate, is_small
from sparkflow_runtime.ops.fusion import Check, Dims, Fused, Fusion, NotFusableError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.narrow import bind_kernel
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, keyword_names
from sparkflow_runtime.ops.signature import REQUIRED, Arg, Signature
from sparkflow_runtime.ops.value import Value, wholly
from sparkflow_runtime.shapes import Shape

_MAX_RECIPES: Final = 512


@dataclass(frozen=True, slots=True)
class _Step:
    """One op of a formula; registers are numbered consecutively, the formula's inputs first."""

    op: Op
    node: NamedNode
    inputs: tuple[int, ...]
    outputs: range
    is_of_sizes: bool
    """Whether its results are integers, such as sizes and axes, which shapes may determine."""


@dataclass(slots=True)
class Recipe:
    """A traced formula.

    Attributes:
        dtypes: The dtype of every register.
        constants: The registers that hold constants of the formula.
        steps: The steps, in order.
        outputs: The registers of the results.
    """

    dtypes: list[DType]
    constants: dict[int, Array] = field(default_factory=dict)
    steps: list[_Step] = field(default_factory=list)
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Register:
    """A tensor in a formula that is being traced."""

    number: int
    dtype: DType


class Composed(Op):
    """An op that is composed of other ops. Subclasses define the formula in `define`."""

    def __init__(self) -> None:
        super().__init__()
        self._define_attrs = keyword_names(self.define) & self.attrs.keys()
        self._recipe_of = functools.lru_cache(_MAX_RECIPES)(self._written_out)

    def define(self, g: Any, *inputs: Any, **attrs: Any) -> Any:
        """Returns the result, or a tuple of results, built with `g`.

        Attributes are passed if they are named as keyword arguments. The inputs' dtypes are known,
        but neither their shapes nor their values.
        """
        raise NotImplementedError(self.op_type)

    def recipe(self, attrs: Mapping[str, Any]) -> Recipe:
        """The formula for these attributes."""
        return self._recipe_of(tuple((name, attrs[name]) for name in self.signature.attrs))

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shapes that the steps infer."""
        recipe = self.recipe(node.attrs)
        found, _ = _inferred(recipe, node.shapes, node.known)
        return [found[register] for register in recipe.outputs]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Runs the steps' kernels one after another."""
        recipe = self.recipe(node.attrs)
        last = {register: step for step in recipe.steps for register in step.inputs}
        calls = [
            (
                bind_kernel(step.op, step.node, context),
                step.inputs,
                step.outputs if len(step.outputs) > 1 else step.outputs[0],
                [
                    register
                    for register in set(step.inputs)
                    if last[register] is step and register not in recipe.outputs
                ],
            )
            for step in recipe.steps
        ]
        count = len(recipe.dtypes) - len(node_inputs := self.signature.input_dtypes(node.attrs))
        rest = [recipe.constants.get(i + len(node_inputs)) for i in range(count)]
        if context.xp is not np:
            kept = set(_on_host(recipe))
            rest = [
                each if each is None or i + len(node_inputs) in kept else context.xp.asarray(each)
                for i, each in enumerate(rest)
            ]
        results = recipe.outputs

        def run(*inputs: Array) -> Any:
            registers = [*inputs, *rest]
            for kernel, taken, given, done in calls:
                result = kernel(*[registers[i] for i in taken])
                for i in done:  # frees memory for the next step
                    registers[i] = None
                if isinstance(given, int):
                    registers[given] = result
                else:
                    registers[given.start : given.stop] = result
            if len(results) == 1:
                return registers[results[0]]
            return tuple([registers[i] for i in results])

        return run

    def is_fusable(self, node: NodeView) -> bool:
        """Whether kernels support all steps except those that shapes may determine."""
        try:
            steps = self.recipe(node.attrs).steps
        except InvalidArgumentError:
            return False
        return all(step.op.is_fusable(step.node) or step.is_of_sizes for step in steps)

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """Fuses the steps into one kernel."""
        recipe = self.recipe(fusion.attrs)
        count = len(fusion.shapes)
        inside: list[Fused | None] = [*fusion.inside, *[None] * (len(recipe.dtypes) - count)]
        found, known = _inferred(recipe, fusion.shapes, lambda i: wholly(fusion.constants[i]))
        values = [each and each.whole for each in map(known, range(len(recipe.dtypes)))]

        def sizes(registers: Sequence[int]) -> list[tuple[int, ...]]:
            shapes = [found[i] for i in registers]
            if any(shape is None or None in shape for shape in shapes):
                raise NotFusableError("the shape of a step is not known")
            return shapes  # type: ignore[return-value]  # no None left

        for step in recipe.steps:
            if all(values[i] is not None for i in step.outputs):
                continue

            def load(number: int, dims: Dims, taken: tuple[int, ...] = step.inputs) -> Any:
                if taken[number] >= count:
                    raise NotFusableError("a step reads several numbers of the formula")
                return fusion.load(taken[number], dims)

            inner = Fusion(
                fusion.builder,
                fusion.space,
                step.node.attrs,
                sizes(step.inputs),
                [recipe.dtypes[i] for i in step.inputs],
                [values[i] for i in step.inputs],
                [inside[i] for i in step.inputs],
                sizes(step.outputs),
                [recipe.dtypes[i] for i in step.outputs],
                load,
                fusion.reduces,
            )
            inside[step.outputs.start : step.outputs.stop] = step.op.fuse(inner)
            fusion.checks += [_outer(check, step.inputs, count) for check in inner.checks]
        return [_made(inside[i]) for i in recipe.outputs]

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor | None]:
        """Applies the chain rule to the steps, which are added to the graph for it."""
        attrs = {name: op.attr(name) for name in self.signature.attrs}
        taken = {name: attrs[name] for name in self._define_attrs}

        def formula(g: Any, *inputs: Tensor) -> Any:
            return self.define(g, *_grouped(self.signature, attrs, inputs), **taken)

        return chain_rule(g, formula, op.inputs, grads)

    def _written_out(self, attrs: tuple[tuple[str, Any], ...]) -> Recipe:
        given = dict(attrs)
        dtypes = [dtype.base for dtype in self.signature.input_dtypes(given)]
        recipe = Recipe(dtypes)
        registers = [_Register(i, dtype) for i, dtype in enumerate(dtypes)]
        taken = {name: given[name] for name in self._define_attrs}
        inputs = _grouped(self.signature, given, registers)
        results = self.define(_Writer(self.op_type, recipe), *inputs, **taken)
        recipe.outputs = tuple(each.number for each in _several(results))
        return recipe


def chain_rule(
    g: GraphBuilder,
    formula: Callable[..., Any],
    inputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Returns the gradients of a formula's inputs. Its steps are added to the graph again for it.

    Args:
        g: The builder.
        formula: A function of a builder and the inputs; returns one or several tensors.
        inputs: Its inputs.
        grads: The gradients of its results; None for none.

    Raises:
        LookupError: A step has no gradient.
    """
    recording = _Recording(g)
    return recording.gradients(_several(formula(recording, *inputs)), grads, inputs)


class _Writer:
    """Traces a formula: the part of `GraphBuilder` that formulas need."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        self._name = name
        self._recipe = recipe

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        return functools.partial(self._step, registry.lookup(op_type))

    def const(self, value: Any, dtype: DType) -> _Register:
        """Adds a constant of the formula."""
        number = len(self._recipe.dtypes)
        self._recipe.dtypes.append(dtype)
        self._recipe.constants[number] = np.asarray(value, dtype.as_numpy_dtype)
        return _Register(number, dtype)

    def _step(self, op: Op, *inputs: Any, **attrs: Any) -> Any:
        signature, recipe = op.signature, self._recipe
        for arg, each in zip(signature.inputs, inputs, strict=True):
            if arg.type_attr is not None and isinstance(each, _Register):
                attrs.setdefault(arg.type_attr, each.dtype)
        arguments = [
            [self._register(arg, each, signature, attrs) for each in given]
            if arg.is_list
            else self._register(arg, given, signature, attrs)
            for arg, given in zip(signature.inputs, inputs, strict=True)
        ]
        kinds = [
            [each.dtype for each in one] if isinstance(one, list) else one.dtype
            for one in arguments
        ]
        complete = signature.complete_attrs(kinds, attrs)
        flat = tuple(
            each.number for one in arguments for each in (one if isinstance(one, list) else [one])
        )
        dtypes = signature.output_dtypes(complete)
        outputs = range(len(recipe.dtypes), len(recipe.dtypes) + len(dtypes))
        recipe.dtypes += dtypes
        node = NamedNode(f"{self._name}/{len(recipe.steps)}", op.op_type, complete)
        given = [recipe.constants[i] for i in flat if i in recipe.constants]
        found = computed(op, node, given) if flat and len(given) == len(flat) else None
        if found is None:
            is_of_sizes = all(dtype.is_integer for dtype in dtypes)
            recipe.steps.append(_Step(op, node, flat, outputs, is_of_sizes))
        else:  # constants only: computed once, not in every run
            recipe.constants.update(zip(outputs, found, strict=True))
        made = [_Register(i, dtype) for i, dtype in zip(outputs, dtypes, strict=True)]
        is_one = len(signature.outputs) == 1 and not signature.outputs[0].is_list
        return made[0] if is_one else made

    def _register(
        self, arg: Arg, given: Any, signature: Signature, attrs: Mapping[str, Any]
    ) -> _Register:
        if isinstance(given, _Register):
            return given
        dtype = arg.dtype
        if dtype is None:
            assert arg.type_attr is not None, arg
            dtype = attrs.get(arg.type_attr, signature.attrs[arg.type_attr].default)
            if dtype is REQUIRED:
                dtype = as_dtype(np.asarray(given).dtype)
        return self.const(given, dtype)


class _Recording:
    """A builder that records the nodes it adds, for differentiation."""

    def __init__(self, g: GraphBuilder) -> None:
        self._g = g
        self._made: list[OperationView] = []

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        add = getattr(self._g, op_type)

        def build(*inputs: Any, **attrs: Any) -> Any:
            made = add(*inputs, **attrs)
            self._made.append(_several(made)[0].op)
            return made

        return build

    def const(self, value: Any, dtype: DType) -> Tensor:
        """A constant."""
        return self._g.const(value, dtype)

    def gradients(
        self, ys: Sequence[Tensor], grads: Sequence[Tensor | None], xs: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """The gradients of `xs` from those of `ys`."""
        terms: dict[int, list[Tensor]] = {}
        for y, dy in zip(ys, grads, strict=True):
            if dy is not None:
                terms.setdefault(id(y), []).append(dy)
        for operation in reversed(self._made):
            arrived = [self._sum(terms.get(id(y))) for y in operation.outputs]
            if all(each is None for each in arrived):
                continue
            op = registry.lookup(_op_type(operation))
            if op.gradient is None:
                raise LookupError(f"{op.op_type} has no gradient")
            found = op.gradient(self._g, operation, *arrived)
            for x, dx in zip(operation.inputs, found, strict=True):
                if dx is not None:
                    terms.setdefault(id(x), []).append(dx)
        return [self._sum(terms.get(id(x))) for x in xs]

    def _sum(self, terms: list[Tensor] | None) -> Tensor | None:
        if not terms:
            return None
        return terms[0] if len(terms) == 1 else self._g.AddN(terms)


def _op_type(operation: Any) -> str:
    found: str = operation.type if hasattr(operation, "type") else operation.op
    return found


def _several(made: Any) -> Sequence[Any]:
    return made if isinstance(made, tuple | list) else (made,)


def _grouped(signature: Signature, attrs: Mapping[str, Any], flat: Sequence[Any]) -> Iterator[Any]:
    """Groups inputs into arguments: lists where the signature has lists."""
    names = signature.input_names(attrs)
    for arg in signature.inputs:
        chosen = [each for each, name in zip(flat, names, strict=True) if name == arg.name]
        yield chosen if arg.is_list else chosen[0]


def _inferred(
    recipe: Recipe, inputs: Sequence[Shape], known: Callable[[int], Value | None]
) -> tuple[list[Shape], Callable[[int], Value | None]]:
    """The static shape of every register, and its value as far as known."""
    found: list[Shape] = [*inputs, *[None] * (len(recipe.dtypes) - len(inputs))]
    values: dict[int, Value | None] = {}
    for register, array in recipe.constants.items():
        found[register], values[register] = array.shape, Value(array)

    def value(register: int) -> Value | None:
        return known(register) if register < len(inputs) else values.get(register)

    def input_value(taken: Sequence[int], index: int) -> Value | None:
        return value(taken[index])

    for step in recipe.steps:
        taken = step.inputs
        static = [found[i] for i in taken]
        kinds = [recipe.dtypes[i] for i in taken]
        node = Inference(static, kinds, step.node.attrs, functools.partial(input_value, taken))
        given = slice(step.outputs.start, step.outputs.stop)
        found[given] = step.op.infer(node)
        if step.is_of_sizes and is_small(found[given]):
            whole = evaluate(step.op, step.node, static, kinds, [value(i) for i in taken])
            values.update(zip(step.outputs, whole or (), strict=False))
    return found, value


def _on_host(recipe: Recipe) -> Iterator[int]:
    """The registers that steps need on the host."""
    for step in recipe.steps:
        names = step.op.signature.input_names(step.node.attrs)
        yield from (
            register
            for register, name in zip(step.inputs, names, strict=True)
            if name in step.op.host_inputs
        )


def _outer(check: Check, taken: tuple[int, ...], count: int) -> Check:
    """A step's check, in terms of the formula's inputs."""
    inputs = tuple(taken[i] for i in check.inputs)
    if any(i >= count for i in inputs):
        raise NotFusableError("what is checked is computed in the kernel")
    return Check(check.value, inputs, check.fail)


def _made(fused: Fused | None) -> Fused:
    if fused is None:
        raise NotFusableError("the result is not computed in the kernel")
    return fused
