"""Scalar expressions of elementwise ops, as instructions of a kernel or as functions of arrays.

An expression is written in Python: operators, comparisons, `&`, `|`, `~`, powers by small integers,
the functions of kernels by name. Literals get the dtype of the other operand; a comparison times a
number is 1 or 0 times it. Expressions come from our own registry, never from a graph.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Number, Value
from sparkflow_runtime.codegen.ir.kernel import ARITHMETIC
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError

_FUNCTIONS: Final = ARITHMETIC - {"cast"}
_OF_ARRAYS: Final = frozenset(dir(np))
_MOST_POWER: Final = 16
_BINARY: Final[dict[type[ast.operator], str]] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.BitAnd: "logical_and",
    ast.BitOr: "logical_or",
}
_UNARY: Final[dict[type[ast.unaryop], str]] = {ast.USub: "negative", ast.Invert: "logical_not"}
_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}


def apply(builder: KernelBuilder, expression: str, operands: Mapping[str, Value]) -> Value:
    """Emits an expression and returns its value.

    Args:
        builder: Receives the instructions.
        expression: An expression from the registry of ops.
        operands: Values by name.

    Raises:
        InvalidArgumentError: It is not an expression, or uses something that kernels lack, in
            general or for these dtypes.
    """
    result = _Evaluation(builder, operands, expression).of(_parsed(expression))
    if not isinstance(result, Value):
        raise InvalidArgumentError(message=f"The expression {expression!r} names no operand")
    return result


@functools.cache
def supports(expression: str, dtype: DType | None = None) -> bool:
    """Whether kernels support everything in an expression.

    Args:
        expression: An expression from the registry of ops, "" for ops that have none.
        dtype: The dtype of all operands; None for any that suits.
    """
    if dtype is None:
        return any(supports(expression, each) for each in (dtypes.float32, dtypes.bool_))
    try:
        tree = _parsed(expression)
        builder = KernelBuilder(0)
        apply(builder, expression, {name: builder.input(dtype, ()) for name in names(tree)})
    except InvalidArgumentError:
        return False
    return True


def of_arrays(expression: str, operands: Sequence[str]) -> str | Callable[..., Any]:
    """Compiles an expression for numpy or cupy.

    Args:
        expression: An expression from the registry of ops.
        operands: Its names, in the order of the arguments.

    Returns:
        The name of an array module's function if the expression just calls it on the operands;
        otherwise a function of the array module and the operands, in which literals have the dtype
        of the first operand, since numpy 1 would widen scalars.

    Raises:
        InvalidArgumentError: It uses something that numpy lacks.
    """
    tree = _parsed(expression)
    called, arguments = _outermost(tree)
    if called and [getattr(each, "id", None) for each in arguments] == [*operands]:
        return called
    body = ast.unparse(_ForArrays(expression, operands).visit(copy.deepcopy(tree)))
    text = f"lambda xp, {', '.join(operands)}: {body}"
    # cupy imports modules with its caller's builtins, so none may be removed.
    function: Callable[..., Any] = eval(text, {})  # noqa: S307 - of our registry
    return function


def _outermost(tree: ast.expr) -> tuple[str | None, list[ast.expr]]:
    """Returns the outermost function, and its arguments."""
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return (tree.func.id if tree.func.id in _OF_ARRAYS else None), tree.args
    if isinstance(tree, ast.BinOp):
        return _BINARY.get(type(tree.op)), [tree.left, tree.right]
    if isinstance(tree, ast.UnaryOp):
        return _UNARY.get(type(tree.op)), [tree.operand]
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
        return _COMPARISONS.get(type(tree.ops[0])), [tree.left, *tree.comparators]
    return None, []


class _ForArrays(ast.NodeTransformer):
    """Maps functions to the array module's, literals to the first operand's dtype."""

    def __init__(self, expression: str, operands: Sequence[str]) -> None:
        self._expression = expression
        self._operands = operands

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function not in _OF_ARRAYS:
            raise InvalidArgumentError(
                message=f"The expression {self._expression!r} calls {ast.unparse(node)}, which "
                "array modules lack: give its op a kernel"
            )
        arguments = [self.visit(each) for each in node.args]
        return ast.Call(ast.Attribute(ast.Name("xp"), function), arguments, [])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._operands:
            raise InvalidArgumentError(
                message=f"The expression {self._expression!r} names {node.id}, operands are "
                f"{sorted(self._operands)}"
            )
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.parse(f"{self._operands[0]}.dtype.type({node.value!r})", mode="eval").body


def names(tree: ast.expr) -> list[str]:
    """Returns the operands of a parsed expression, in alphabetical order."""
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return sorted(
        {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in called}
    )


@functools.cache
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise InvalidArgumentError(message=f"{expression!r} is not an expression") from error


class _Evaluation:
    """Traverses a parsed expression; numbers stay Python's until they meet a value."""

    def __init__(
        self, builder: KernelBuilder, operands: Mapping[str, Value], expression: str
    ) -> None:
        self._builder = builder
        self._operands = operands
        self._expression = expression

    def of(self, node: ast.expr) -> Value | Number:
        """Returns the value of a subexpression."""
        visit: Callable[[Any], Value | Number] | None = getattr(
            self, f"_of_{type(node).__name__.lower()}", None
        )
        if visit is None:
            raise self._error(f"has {type(node).__name__}")
        return visit(node)

    def _of_constant(self, node: ast.Constant) -> Number:
        if not isinstance(node.value, bool | int | float):
            raise self._error(f"has the literal {node.value!r}")
        return node.value

    def _of_name(self, node: ast.Name) -> Value:
        if node.id not in self._operands:
            raise self._error(f"names {node.id}, operands are {sorted(self._operands)}")
        return self._operands[node.id]

    def _of_unaryop(self, node: ast.UnaryOp) -> Value | Number:
        operand = self.of(node.operand)
        if isinstance(operand, Value):
            return self._builder.call(self._function(_UNARY, node.op), operand)
        if not isinstance(node.op, ast.USub):
            raise self._error(f"has {type(node.op).__name__} of a literal")
        return -operand

    def _of_binop(self, node: ast.BinOp) -> Value:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(node.op, ast.Pow):
            return self._power(left, right)
        if isinstance(node.op, ast.Mult) and isinstance(left, Value) and isinstance(right, Value):
            if left.dtype is dtypes.bool_:
                left = self._builder.cast(left, right.dtype)
            elif right.dtype is dtypes.bool_:
                right = self._builder.cast(right, left.dtype)
        return self._builder.call(self._function(_BINARY, node.op), left, right)

    def _of_compare(self, node: ast.Compare) -> Value:
        if len(node.ops) > 1:
            raise self._error("compares more than two values at once")
        function = self._function(_COMPARISONS, node.ops[0])
        return self._builder.call(function, self.of(node.left), self.of(node.comparators[0]))

    def _of_call(self, node: ast.Call) -> Value:
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function not in _FUNCTIONS or node.keywords:
            raise self._error(f"calls {ast.unparse(node)}")
        return self._builder.call(function, *map(self.of, node.args))

    def _function(self, table: Mapping[type[Any], str], operator: ast.AST) -> str:
        function = table.get(type(operator))
        if function is None:
            raise self._error(f"has {type(operator).__name__}")
        return function

    def _power(self, base: Value | Number, exponent: Value | Number) -> Value:
        if (
            not isinstance(base, Value)
            or not isinstance(exponent, int)
            or not 1 <= abs(exponent) <= _MOST_POWER
        ):
            raise self._error(f"has a power of a number, or one other than ±1 to ±{_MOST_POWER}")
        result: Value | None = None
        square, rest = base, abs(exponent)
        while True:
            if rest & 1:
                result = square if result is None else result * square
            rest >>= 1
            if not rest:
                break
            square = square * square
        assert result is not None
        return result if exponent > 0 else 1 / result

    def _error(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            message=f"Fused kernels cannot have the expression {self._expression!r}: it {what}"
        )
