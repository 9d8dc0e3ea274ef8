"""Tests of ops as rows of a table: the types of rows, and the checks of every row.

A file of rows is a module `cases_<family>.py` with any of these lists, found by `load_cases`:

    CASES = [OpCase("Add", [A, B], expected=np.add, gradient=(0, 1))]
    WRONG_SHAPES = [WrongShapeCase("MatMul", [(2, 3), (4, 5)], message="Dimensions must be ...")]
    FAILURES = [FailureCase("FloorDiv", [ONE, ZERO], message="Integer division by zero")]

What lives here: rows and checks. What does not: pytest, and the builder that runs ops (`eager`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, OpError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernels.filling import bind_filling_kernel
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.ops.value import Value
from sparkflow_runtime.shapes import Shape, is_fully_defined, text
from support.eager import EagerBuilder, EagerSlices, EagerTensor
from support.numerical import directional_derivatives, numerical_gradient

KNOWN = "known"
"""Every input is a constant: inference sees all shapes and values."""
RANKS = "ranks"
"""Ranks are known and sizes are not; only integer inputs (axes, shapes) are constants."""
UNKNOWN = "unknown"
"""Nothing is known before the op runs."""
KNOWLEDGE = (KNOWN, RANKS, UNKNOWN)

_FEW = 3
"""The number of elements up to which a full gradient is as fast as directional derivatives."""
_RTOL = {dtypes.float16: 4e-3, dtypes.float32: 1e-6, dtypes.float64: 1e-12}
_RTOL[dtypes.bfloat16] = 8e-3
_RTOL[dtypes.complex64] = 2e-6
_RTOL[dtypes.complex128] = 1e-12


@dataclass(frozen=True, slots=True)
class OpCase:
    """One op on one set of inputs.

    Attributes:
        op: The op type.
        inputs: One entry per input argument: an array (or number), a list of them for a list
            argument. Floating-point arrays should be float64: they are cast.
        attrs: The attributes that are neither implied nor at their default.
        expected: The result: an array (a tuple of them for several outputs), or a function of the
            inputs that computes it with plain numpy. The function gets float16 and float32 inputs
            as float64; lists stay lists. None: only shapes and dtypes are compared.
        gradient: Indexes of the flattened inputs whose gradient is checked numerically: in
            complex128 if an input is complex, else in float64.
        second_order: Whether the gradient's own gradient is checked too.
        dtypes: The values of `dtype_attr` to test. None: all that the op allows if `expected` is a
            function, else the inputs' own.
        dtype_attr: The type attribute whose inputs are cast.
        dynamic_shape: Whether the output's shape is unknown even if all inputs are constants.
        rtol: Relative tolerance in float32; other types in proportion to their precision.
        atol: Absolute tolerance in float32, likewise.
        gradient_rtol: Relative tolerance of gradients.
    """

    op: str
    inputs: Sequence[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    expected: Any = None
    gradient: Sequence[int] = ()
    second_order: bool = False
    dtypes: Sequence[DType] | None = None
    dtype_attr: str = "T"
    dynamic_shape: bool = False
    rtol: float = 1e-6
    atol: float = 0.0
    gradient_rtol: float = 1e-6

    @property
    def id(self) -> str:
        """A readable name for test reports."""
        shapes = ",".join(
            "[" + ",".join(_shape_text(each) for each in value) + "]"
            if isinstance(value, list)
            else _shape_text(value)
            for value in self.inputs
        )
        attrs = ",".join(f"{k}={_plain(v)}" for k, v in self.attrs.items())
        return f"{self.op}-{shapes}" + (f"-{attrs}" if attrs else "")

    def run_dtypes(self) -> list[DType | None]:
        """The dtypes to run this row with; [None] if there is nothing to vary."""
        if self.dtypes is not None:
            return list(self.dtypes)
        attr = registry.lookup(self.op).attrs.get(self.dtype_attr)
        if attr is None or attr.kind != "type" or not callable(self.expected):
            return [None]
        allowed = dtypes.ALL if attr.allowed is None else attr.allowed
        return sorted(allowed & dtypes.PLAIN, key=int)

    def arrays(self, dtype: DType | None) -> list[Any]:
        """The inputs as arrays, those of `dtype_attr` cast to `dtype`."""
        arguments = registry.lookup(self.op).signature.inputs
        result: list[Any] = []
        for arg, value in zip(arguments, self.inputs, strict=True):
            target = dtype if arg.type_attr == self.dtype_attr else None
            if isinstance(value, list) and arg.is_list:
                result.append([cast(each, target) for each in value])
            else:
                result.append(cast(value, target))
        return result


@dataclass(frozen=True, slots=True)
class WrongShapeCase:
    """Static input shapes that an op must reject before anything runs.

    Attributes:
        op: The op type.
        shapes: One static shape per flattened input.
        attrs: Attributes, including type attributes that are not `float32`.
        message: The exact text of the InvalidArgumentError.
        values: Constant inputs by index, e.g. axes.
    """

    op: str
    shapes: Sequence[Shape]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    values: Mapping[int, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """A readable name for test reports."""
        attrs = ",".join(f"{k}={_plain(v)}" for k, v in self.attrs.items())
        return f"{self.op}-{','.join(map(text, self.shapes))}" + (f"-{attrs}" if attrs else "")


@dataclass(frozen=True, slots=True)
class FailureCase:
    """Inputs on which a kernel must fail, although nothing is wrong before it runs.

    Attributes:
        op, inputs, attrs: As in `OpCase`; arrays are used unchanged.
        message: The exact text of the error.
        error: Its class.
    """

    op: str
    inputs: Sequence[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    error: type[OpError] = InvalidArgumentError

    @property
    def id(self) -> str:
        """A readable name for test reports."""
        return f"{self.op}-{self.message}"


def load_cases(directory: Path) -> Iterator[ModuleType]:
    """Yields the modules `cases_*.py` of a directory, imported under unique names."""
    for path in sorted(directory.glob("cases_*.py")):
        spec = importlib.util.spec_from_file_location(f"op_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def cast(value: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """Casts `value` such that it stays meaningful: no negative numbers for unsigned types.

    Truncated for integers; times `1 + 0.5i` for complex; non-zero for bool.
    """
    array = np.asarray(value)
    if dtype is None or array.dtype == dtype.numpy:
        return array
    if dtype.is_bool:
        return np.asarray(array != 0)
    if dtype in dtypes.UNSIGNED:
        return np.asarray(np.abs(array), dtype.numpy)
    if dtype.is_complex and array.dtype.kind != "c":
        return np.asarray(array * (1 + 0.5j), dtype.numpy)
    return np.asarray(array, dtype.numpy)


def check_forward(
    case: OpCase, dtype: DType | None, builder: Callable[[], EagerBuilder] = EagerBuilder
) -> None:
    """Compares results with the row's `expected`, for every degree of static knowledge.

    The builder itself compares dtypes and shapes with the inferred ones. Inputs are read-only, so
    that a kernel that changes them fails.
    """
    arrays = case.arrays(dtype)
    for knowledge in KNOWLEDGE:
        g = builder()
        outputs = _run(g, case, arrays, knowledge)
        _compare_outputs(case, arrays, outputs)
        if knowledge == KNOWN and not case.dynamic_shape:
            for tensor in outputs:
                assert is_fully_defined(tensor.static_shape), (
                    f"{case.op}: inputs are constants, yet the inferred shape is "
                    f"{text(tensor.static_shape)}"
                )


def check_non_contiguous(case: OpCase, builder: Callable[[], EagerBuilder] = EagerBuilder) -> None:
    """Compares results on strided and on Fortran-ordered inputs with `expected`."""
    dtype = case.run_dtypes()[-1]
    for rearrange in (strided, fortran_ordered):
        arrays = [
            [rearrange(each) for each in value] if isinstance(value, list) else rearrange(value)
            for value in case.arrays(dtype)
        ]
        _compare_outputs(case, arrays, _run(builder(), case, arrays, KNOWN))


def check_filling(case: OpCase, dtype: DType | None) -> bool:
    """Compares what a kernel of `bind_out` writes with what the kernel of `bind` returns, exactly.

    Inputs are tried unchanged, strided, and in Fortran order; arrays are filled with nan or -1, so
    that elements that are not written are noticed.

    Returns:
        Whether the op has such a kernel for this dtype.
    """
    op = registry.lookup(case.op)
    for rearrange in (np.asarray, strided, fortran_ordered):
        arrays = [
            [rearrange(each) for each in value] if isinstance(value, list) else rearrange(value)
            for value in case.arrays(dtype)
        ]
        g = EagerBuilder()
        operation = g.run(
            op, _unflatten(case, _tensors(g, case, _flatten(arrays), UNKNOWN)), case.attrs
        )
        kernel = bind_filling_kernel(op, operation, g.context)
        if kernel is None:
            return False
        results = [host(tensor) for tensor in operation.outputs]
        if any(result.dtype == object for result in results):
            return False
        filled = [_poisoned(result) for result in results]
        with np.errstate(all="ignore"):
            kernel(*(tensor.read() for tensor in operation.inputs), *filled)
        for index, (found, expected) in enumerate(zip(filled, results, strict=True)):
            where = f"{case.op}, output {index}, {found.dtype}"
            np.testing.assert_array_equal(found, expected, err_msg=where)
            np.testing.assert_array_equal(_signs(found), _signs(expected), err_msg=where)
    return True


def _signs(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which numbers are negative, including -0.0; False for NaN."""
    if array.dtype.kind not in "fc":
        return np.zeros(0, bool)
    parts = np.ascontiguousarray(array).reshape(-1).view(array.real.dtype)
    return np.asarray(np.signbit(parts) & ~np.isnan(parts))


def _poisoned(like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    poisoned = np.empty(like.shape, like.dtype)
    poisoned.reshape(-1).view(np.uint8)[...] = 1 if like.dtype == bool else 0xFF
    return poisoned


def check_gradient(case: OpCase, builder: Callable[[], EagerBuilder] = EagerBuilder) -> None:
    """Compares the gradients of the row's inputs with central differences.

    This is done for every degree of static knowledge, on which the nodes of gradients depend.
    """
    wide = _with_inputs(case, case.arrays(_wide_dtype(case)))
    flat = _flatten(wide.inputs)
    outputs = _run(builder(), wide, flat, KNOWN)
    weights = [_weights(output, seed) for seed, output in enumerate(outputs)]

    def objective(*inputs: np.ndarray[Any, Any]) -> float:
        return _weighted_sum(_run(builder(), wide, inputs, KNOWN), weights)

    expected = {i: _Expected(objective, flat, i, case.gradient_rtol) for i in case.gradient}
    for knowledge in KNOWLEDGE:
        found = _gradients(builder(), wide, flat, weights, knowledge)
        for index, gradient in zip(case.gradient, found, strict=True):
            expected[index].compare(gradient, f"{case.op}, input {index}, shapes {knowledge}")


def check_second_order(case: OpCase, builder: Callable[[], EagerBuilder] = EagerBuilder) -> None:
    """Compares gradients of the gradients with central differences of the gradients."""
    wide = _with_inputs(case, case.arrays(_wide_dtype(case)))
    flat = _flatten(wide.inputs)
    outputs = _run(builder(), wide, flat, KNOWN)
    weights = [_weights(output, seed) for seed, output in enumerate(outputs)]
    first = _gradients(builder(), wide, flat, weights, KNOWN)
    second_weights = [_weights(gradient, 7) for gradient in first]

    def objective(*inputs: np.ndarray[Any, Any]) -> float:
        return _weighted_sum(_gradients(builder(), wide, inputs, weights, KNOWN), second_weights)

    g = builder()
    inputs = _tensors(g, wide, flat, UNKNOWN)
    xs = [inputs[i] for i in case.gradient]
    outputs = g.run(registry.lookup(case.op), _unflatten(wide, inputs), case.attrs).outputs
    dys = [None if w is None else g.tensor(w) for w in weights]
    gradients = [each for each in g.gradients(outputs, xs, dys) if isinstance(each, EagerTensor)]
    assert len(gradients) == len(xs), f"{case.op} has a sparse or missing gradient"
    found = g.gradients(gradients, xs, [g.tensor(w) for w in second_weights])
    for index, gradient in zip(case.gradient, found, strict=True):
        expected = _Expected(objective, flat, index, case.gradient_rtol)
        expected.compare(gradient, f"{case.op}, input {index}, second order")


def check_wrong_shapes(case: WrongShapeCase) -> None:
    """Runs inference and compares the text of the error."""
    op = registry.lookup(case.op)
    attrs = {
        name: case.attrs.get(name, dtypes.float32 if attr.kind == "type" else attr.default)
        for name, attr in op.attrs.items()
    }
    constants = {index: Value(np.asarray(value)) for index, value in case.values.items()}
    inference = Inference(case.shapes, op.signature.input_dtypes(attrs), attrs, constants.get)
    try:
        inferred = op.infer(inference)
    except InvalidArgumentError as error:
        message = error.message
    else:
        raise AssertionError(f"{case.op} accepted the shapes and inferred {inferred}")
    assert message == case.message, f"message is {message!r}"


def check_failure(case: FailureCase, builder: Callable[[], EagerBuilder] = EagerBuilder) -> None:
    """Runs the op without static knowledge and compares the error's class and text."""
    row = OpCase(case.op, case.inputs, case.attrs)
    try:
        _run(builder(), row, row.arrays(None), UNKNOWN)
    except case.error as error:
        message = error.message
    else:
        raise AssertionError(f"{case.op} did not fail")
    assert message == case.message, f"message is {message!r}"


def strided(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values as every second element of a larger array."""
    if array.ndim == 0:
        return array
    return np.repeat(array, 2, axis=-1)[..., ::2]


def fortran_ordered(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values, with the first dimension varying fastest."""
    return np.asarray(array, order="F")


def host(value: Any) -> np.ndarray[Any, Any]:
    """A tensor, or an array of any device, as a numpy array."""
    if isinstance(value, EagerTensor):
        value = value.read()
    return np.asarray(value.get() if hasattr(value, "get") else value)


def _run(
    g: EagerBuilder, case: OpCase, arrays: Sequence[Any], knowledge: str
) -> tuple[EagerTensor, ...]:
    tensors = _tensors(g, case, _flatten(arrays), knowledge)
    return g.run(registry.lookup(case.op), _unflatten(case, tensors), case.attrs).outputs


def _tensors(
    g: EagerBuilder, case: OpCase, flat: Sequence[Any], knowledge: str
) -> list[EagerTensor]:
    arguments = registry.lookup(case.op).signature.inputs
    is_ref = [
        arg.is_ref
        for arg, value in zip(arguments, case.inputs, strict=True)
        for _ in (value if arg.is_list else [value])
    ]
    result = []
    for array, ref in zip(flat, is_ref, strict=True):
        array = np.asarray(array).view()
        array.flags.writeable = False
        is_integer = array.dtype.kind in "iub"
        if ref:
            result.append(g.variable(array))
        elif knowledge == KNOWN or (knowledge == RANKS and is_integer):
            result.append(g.const(array))
        elif knowledge == RANKS:
            result.append(g.tensor(array, static_shape=(None,) * np.ndim(array)))
        else:
            result.append(g.tensor(array, static_shape=None))
    return result


def _gradients(
    g: EagerBuilder, case: OpCase, flat: Sequence[Any], weights: Sequence[Any], knowledge: str
) -> list[Any]:
    tensors = _tensors(g, case, flat, knowledge)
    outputs = g.run(registry.lookup(case.op), _unflatten(case, tensors), case.attrs).outputs
    dys = [None if w is None else g.tensor(w) for w in weights]
    xs = [tensors[i] for i in case.gradient]
    found = g.gradients(outputs, xs, dys)
    return [
        gradient.to_dense(host(x).shape)
        if isinstance(gradient, EagerSlices)
        else (np.zeros_like(host(x)) if gradient is None else gradient)
        for gradient, x in zip(found, xs, strict=True)
    ]


def _compare_outputs(case: OpCase, arrays: Sequence[Any], outputs: Sequence[EagerTensor]) -> None:
    if case.expected is None:
        return
    expected = case.expected
    if callable(expected):
        with np.errstate(all="ignore"):
            expected = expected(*map(_widened, arrays))
    results = expected if isinstance(expected, tuple | list) else (expected,)
    assert len(results) == len(outputs), f"{len(outputs)} outputs, {len(results)} expected"
    for index, (result, tensor) in enumerate(zip(results, outputs, strict=True)):
        _compare(case, index, host(tensor), np.asarray(result), tensor.dtype.base)


def _compare(
    case: OpCase,
    index: int,
    found: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    dtype: DType,
) -> None:
    where = f"{case.op}, output {index}, {dtype.name}"
    assert found.shape == expected.shape, f"{where}: shape {found.shape} != {expected.shape}"
    unit = _RTOL.get(dtype)
    if unit is None:
        np.testing.assert_array_equal(found, expected, err_msg=where)
        return
    scale = unit / _RTOL[dtypes.float32]
    with np.errstate(all="ignore"):
        expected = expected.astype(dtype.numpy)
    wide = np.complex128 if dtype.is_complex else np.float64
    np.testing.assert_allclose(
        found.astype(wide),
        expected.astype(wide),
        rtol=case.rtol * scale,
        atol=max(case.atol * scale, _tiny(dtype)),
        err_msg=where,
    )


class _Expected:
    """The gradient of a real function by one of its arguments, by central differences.

    It is first compared along some directions, and element by element only if that finds a
    difference: a tenth of the time.

    Args:
        function: Takes all `arrays`.
        arrays: The point.
        index: The argument to differentiate by.
        rtol: The accuracy.
    """

    def __init__(
        self,
        function: Callable[..., float],
        arrays: Sequence[np.ndarray[Any, Any]],
        index: int,
        rtol: float,
    ) -> None:
        self._function = function
        self._arrays = arrays
        self._index = index
        self._rtol = rtol
        self._directions: list[tuple[np.ndarray[Any, Any], float]] | None = None
        self._elements: np.ndarray[Any, Any] | None = None

    def compare(self, found: Any, where: str) -> None:
        """Fails if `found` is not the gradient; None means zeros."""
        point, rtol = self._arrays[self._index], self._rtol
        array = np.zeros_like(point) if found is None else host(found)
        assert array.dtype == point.dtype, f"{where}: gradient has dtype {array.dtype}"
        assert array.shape == point.shape, f"{where}: shape {array.shape} != {point.shape}"
        if array.size > _FEW and self._is_along_directions(array):
            return
        if self._elements is None:
            self._elements = numerical_gradient(self._function, self._arrays, self._index)
        expected = self._elements
        atol = rtol * max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(array, expected, rtol=rtol, atol=atol, err_msg=where)

    def _is_along_directions(self, gradient: np.ndarray[Any, Any]) -> bool:
        if self._directions is None:
            self._directions = directional_derivatives(self._function, self._arrays, self._index)
        most = self._rtol * max(1.0, float(np.abs(gradient).max(initial=0.0)))
        return all(
            abs((gradient * np.conj(direction)).sum().real - derivative) <= most
            for direction, derivative in self._directions
        )


def _weights(output: Any, seed: int) -> np.ndarray[Any, Any] | None:
    """The gradient with respect to an output; None for outputs without one."""
    array = host(output)
    if array.dtype.kind not in "fc":
        return None
    random = np.random.default_rng(seed)
    weights = np.asarray(random.normal(size=array.shape), array.dtype)
    return weights + 1j * random.normal(size=array.shape) if array.dtype.kind == "c" else weights


def _weighted_sum(outputs: Sequence[Any], weights: Sequence[Any]) -> float:
    """The real number that is differentiated."""
    return sum(
        float((host(output) * np.conj(weight)).sum().real)
        for output, weight in zip(outputs, weights, strict=True)
        if weight is not None
    )


def _wide_dtype(case: OpCase) -> DType | None:
    attr = registry.lookup(case.op).attrs.get(case.dtype_attr)
    if attr is None or attr.kind != "type":
        return None
    is_complex = any(array.dtype.kind == "c" for array in _flatten(case.arrays(None)))
    return dtypes.complex128 if is_complex else dtypes.float64


def _with_inputs(case: OpCase, inputs: Sequence[Any]) -> OpCase:
    return OpCase(case.op, inputs, case.attrs, None, case.gradient)


def _widened(value: Any) -> Any:
    if isinstance(value, list):
        return [_widened(each) for each in value]
    if value.dtype in (np.float16, np.float32, ml_dtypes.bfloat16):
        return value.astype(np.float64)
    return value.astype(np.complex128) if value.dtype == np.complex64 else value


def _flatten(values: Sequence[Any]) -> list[Any]:
    return [each for value in values for each in (value if isinstance(value, list) else [value])]


def _unflatten(case: OpCase, flat: Sequence[Any]) -> list[Any]:
    """Gives a flat list of inputs the structure of the op's arguments."""
    arguments = registry.lookup(case.op).signature.inputs
    rest = iter(flat)
    return [
        [next(rest) for _ in value] if arg.is_list else next(rest)
        for arg, value in zip(arguments, case.inputs, strict=True)
    ]


def _shape_text(value: Any) -> str:
    return "x".join(map(str, np.shape(value))) or "scalar"


def _plain(value: Any) -> str:
    return value.name if isinstance(value, DType) else str(value)


def _tiny(dtype: DType) -> float:
    """The smallest normal number of a dtype."""
    finfo: Any = ml_dtypes.finfo  # lacks types
    return float(finfo(dtype.as_numpy_dtype).tiny)
