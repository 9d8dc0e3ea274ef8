import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.evaluation import NamedNode
from sparkflow_runtime.ops.list_access import Access, ListAccess

DECLARED = {
    "TensorListLength": ListAccess(Access.LENGTH),
    "TensorListReserve": ListAccess(Access.NEW),
    "TensorListGetItem": ListAccess(Access.READ),
    "TensorListSetItem": ListAccess(Access.WRITE, once=True, grows=False),
    "_TensorListUnset": ListAccess(Access.CLEAR),
    "_AddVariants": ListAccess(Access.SUM),
}
ATTRS = {"_write_once": True, "resize_if_index_out_of_bounds": False}


@pytest.mark.parametrize("name", DECLARED)
def test_what_ops_do_with_lists(name: str) -> None:
    op = registry.lookup(name)
    assert op.list_access(NamedNode("n", name, ATTRS)) == DECLARED[name]


def test_no_other_op_says_so() -> None:
    others = [op for op in registry.all_ops() if op.op_type not in DECLARED]
    assert all(op.list_access(NamedNode("n", op.op_type, {})) is None for op in others)
