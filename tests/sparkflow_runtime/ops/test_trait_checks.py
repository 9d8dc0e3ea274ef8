from typing import Any

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import all as _all, registry, trait_checks  # noqa: F401
from sparkflow_runtime.ops.images import Images
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import int_attr, string_attr, type_attr
from sparkflow_runtime.ops.value import moving

T = {"T": type_attr(frozenset({dtypes.float32}))}


class Own(Op):
    """Two inputs and an output."""

    inputs = "x: T, n: int32"
    outputs = "y: T"
    attrs = T


def op(**facts: Any) -> Op:
    return type("Own", (Own,), facts)()


@pytest.mark.parametrize(
    ("trait", "value"),
    [
        ("commutative", 1),
        ("elementwise", "yes"),
        ("capturable", None),
        ("host_inputs", "n"),
        ("host_inputs", ("n",)),
        ("aliases", "x"),
        ("repeats", 0),
        ("sums_rows", ["x", "n"]),
        ("sums_rows", ("x", "n", "n")),
        ("by_segment", Op),
        ("images", (0,)),
        ("images", Images(("x",))),
        ("value_rule", moving),
        ("value_rule", moving("x")),
        ("fuse_over", True),
        ("fuse_over", "x"),
        ("overwrites", "x"),
        ("fills", 0.5),
        ("fills", False),
        ("flops", 1.5),
        ("kernels", frozenset({"CPU"})),
        ("kernels", {"CPU": dtypes.float32}),
        ("kernels", {"CPU": {"float32"}}),
    ],
)
def test_a_wrong_type_is_refused(trait: str, value: Any) -> None:
    attrs = {**T, "data_format": string_attr("NHWC")}
    with pytest.raises(TypeError, match=rf"Own\.{trait} must"):
        trait_checks.check(op(**{"attrs": attrs, trait: value}))


@pytest.mark.parametrize(
    ("trait", "value", "text"),
    [
        ("host_inputs", {"m"}, "names 'm', but the inputs are x, n"),
        ("aliases", {"x", "z"}, "names 'z'"),
        ("repeats", "z", "names 'z'"),
        ("sums_rows", ("x", "ids"), "names 'ids'"),
        ("fuse_over", 2, "speaks of input 2, but there are 2"),
        ("fuse_over", -1, "speaks of input -1"),
        ("value_rule", moving(0, 5), "speaks of input 5"),
        ("images", Images((0, 2)), "speaks of input 2"),
        ("images", Images((0,), sizes=3), "speaks of input 3"),
        ("broadcasts", True, "elementwise, too"),
        ("passes_on", True, "2 inputs and 1 outputs"),
    ],
)
def test_an_input_that_there_is_not_is_refused(trait: str, value: Any, text: str) -> None:
    attrs = {**T, "data_format": string_attr("NHWC")}
    with pytest.raises(ValueError, match=rf"Own\.{trait}.*{text}"):
        trait_checks.check(op(**{"attrs": attrs, trait: value}))


@pytest.mark.parametrize(
    "trait", ["commutative", "reduction", "looks_up_rows", "applies_gradients"]
)
def test_what_needs_two_inputs(trait: str) -> None:
    with pytest.raises(ValueError, match=rf"Own\.{trait} .*it has 1"):
        trait_checks.check(op(inputs="x: T", **{trait: True}))


def test_images_need_an_order_of_dimensions() -> None:
    with pytest.raises(ValueError, match="data_format"):
        trait_checks.check(op(images=Images((0,))))


def test_a_list_has_as_many_inputs_as_a_node_says() -> None:
    attrs = {**T, "N": int_attr(minimum=1)}
    trait_checks.check(op(inputs="x: N * T", attrs=attrs, value_rule=moving(3)))


def test_a_variable_gives_references_or_handles() -> None:
    variables = [op for op in registry.all_ops() if op.is_variable]
    assert {"VariableV2", "VarHandleOp"} <= {op.op_type for op in variables}
    for op in variables:
        assert op.signature.gives_references != op.signature.gives_handles, op.op_type
