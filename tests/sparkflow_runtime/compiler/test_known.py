import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.known import Known, find_known, without_shapes
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.evaluation import MAX_VALUE_BYTES
from sparkflow_runtime.ops.op import Held
from support.graphs import const, node, variable
from support.plans import arg


def known(*nodes: Node, **given: tuple[int, ...]) -> dict[str, Known]:
    shapes = {Endpoint(name, 0): shape for name, shape in given.items()}
    return {
        endpoint.node: each
        for endpoint, each in find_known(nodes, shapes).items()
        if not endpoint.slot
    }


def test_the_arithmetic_of_shapes_is_done_once() -> None:
    found = known(
        arg("x", 0),
        node("shape", "Shape", "x", out_type=dtypes.int32),
        const("axes", [0], dtypes.int32),
        const("axis", 0, dtypes.int32),
        node("count", "GatherV2", "shape", "axes", "axis", Tindices=dtypes.int32),
        node("more", "AddV2", "count", "count", T=dtypes.int32),
        x=(3, 4),
    )
    assert found["more"].value.tolist() == [6]
    assert found["shape"].value.tolist() == [3, 4]
    assert not any(found[name].value.flags.writeable for name in ("shape", "count", "more"))


def test_tensors_of_one_number_take_no_memory() -> None:
    found = known(
        const("shape", [1000, 1000], dtypes.int32),
        const("one", 1.0),
        node("ones", "Fill", "shape", "one"),
        node("twos", "AddV2", "ones", "ones"),
        node("zeros", "ZerosLike", "twos"),
    )
    assert found["twos"].shape == (1000, 1000)
    assert found["twos"].value.strides == (0, 0)
    assert found["twos"].value[0, 0] == 2
    assert found["zeros"].value[5, 5] == 0


def test_large_values_are_left_to_the_step() -> None:
    size = MAX_VALUE_BYTES // 4
    found = known(
        const("x", np.arange(size, dtype=np.float32)),
        const("y", np.arange(8, dtype=np.float32)),
        node("large", "Neg", "x"),
        node("small", "Neg", "y"),
    )
    assert found["large"].value is None
    assert found["large"].full_shape == (size,)
    assert found["small"].value.tolist() == (-np.arange(8)).tolist()


def test_what_fails_is_left_to_the_step() -> None:
    found = known(
        const("x", [1.0, 2.0]),
        const("y", [1.0, 2.0, 3.0]),
        const("zero", 0, dtypes.int32),
        node("s", "AddV2", "x", "y"),
        node("q", "FloorDiv", "zero", "zero", T=dtypes.int32),
    )
    assert (found["s"].value, found["s"].full_shape) == (None, None)
    assert found["q"].value is None


def test_what_has_effects_or_is_random_is_never_known() -> None:
    found = known(
        const("shape", [2], dtypes.int32),
        const("x", [1.0, 2.0]),
        node("r", "RandomUniform", "shape", dtype=dtypes.float32, T=dtypes.int32),
        node("c", "CheckNumerics", "x", message="m"),
    )
    assert found["r"].value is None
    assert found["r"].full_shape == (2,)
    assert found["c"].value is None


def test_a_variable_that_may_take_any_shape_has_none() -> None:
    nodes = [arg("x", 0), variable("v", (3,)), variable("w", (3,))]
    loose = node("set", "Assign", "v", "x", validate_shape=False)
    strict = node("also", "Assign", "w", "x")
    found = known(*nodes, loose, strict)
    assert found["v"].full_shape is None
    assert found["w"].full_shape == (3,)


def test_whatever_the_shapes_are_dtypes_and_constants_are_known() -> None:
    nodes = [
        variable("v"),
        const("one", 1.0),
        node("sum", "AssignAdd", "v", "one", T=dtypes.float32),
        node("shape", "Shape", "one", out_type=dtypes.int32),
    ]
    held = np.float32(1)
    found = without_shapes(nodes, {Endpoint("one", 0): held})
    assert all(each.shape is None for each in found.values())
    assert [endpoint.node for endpoint, each in found.items() if each.value is not None] == ["one"]
    assert found[Endpoint("one", 0)].value is held
    assert found[Endpoint("sum", 0)].dtype.is_ref
    assert found[Endpoint("shape", 0)].dtype == dtypes.int32


INT = dtypes.int32
FLOAT = dtypes.float32


def held(*nodes: Node, **given: tuple[int, ...]) -> Held:
    """What the list of the last node holds."""
    return known(*nodes, **given)[nodes[-1].name].held


RESERVED = (
    const("any", [-1], INT),
    const("count", 6, INT),
    node("list", "TensorListReserve", "any", "count", element_dtype=FLOAT, shape_type=INT),
)


def set_item(name: str, source: str, item: str, resizes: bool = False) -> Node:
    attrs = {"element_dtype": FLOAT, "resize_if_index_out_of_bounds": resizes}
    return node(name, "TensorListSetItem", source, "count", item, **attrs)


def test_the_rows_of_a_tensor_are_elements() -> None:
    of_rows = {"element_dtype": FLOAT, "shape_type": INT}
    nodes = [
        arg("x", 0),
        const("any", [-1], INT),
        const("i", 2, INT),
        node("list", "TensorListFromTensor", "x", "any", **of_rows),
        node("same", "Identity", "list", T=dtypes.variant),
        node("row", "TensorListGetItem", "same", "i", "any", element_dtype=FLOAT),
        node("all", "TensorListStack", "same", "any", element_dtype=FLOAT),
    ]
    found = known(*nodes, x=(7, 3, 4))
    assert found["same"].held == Held(7, (3, 4))
    assert found["row"].full_shape == (3, 4)
    assert found["all"].full_shape == (7, 3, 4)


def test_elements_that_are_set_have_one_shape_or_none_is_known() -> None:
    x, y = arg("x", 0), arg("y", 1)
    shapes = {"x": (3, 4), "y": (5,)}
    assert held(*RESERVED) == Held(6, is_unset=True)
    once = set_item("a", "list", "x")
    assert held(x, *RESERVED, once, x=(3, 4)) == Held(6, (3, 4))
    assert held(x, *RESERVED, once, set_item("b", "a", "x"), x=(3, 4)) == Held(6, (3, 4))
    assert held(x, y, *RESERVED, once, set_item("b", "a", "y"), **shapes) == Held(6)
    again = set_item("c", "b", "y")
    assert held(x, y, *RESERVED, once, set_item("b", "a", "y"), again, **shapes) == Held(6)
    assert held(x, *RESERVED, set_item("a", "list", "x", resizes=True), x=(3,)) == Held(None, (3,))
    assert held(x, *RESERVED, once) == Held(6)  # the shape of x is unknown


def test_sums_of_lists_have_elements_if_all_have() -> None:
    x, y = arg("x", 0), arg("y", 1)
    one, other = set_item("a", "list", "x"), set_item("b", "list", "y")
    total = node("total", "_AddVariants", "a", "b", N=2)
    given = (x, y, *RESERVED, one, other, total)
    assert held(*given, x=(3,), y=(3,)) == Held(6, (3,))
    assert held(*given, x=(3,), y=(4,)) == Held(6)
    total = node("total", "_AddVariants", "list", "a", N=2)
    assert held(x, *RESERVED, one, total, x=(3,)) == Held(6, (3,))
