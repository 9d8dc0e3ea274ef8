"""The instructions of depthwise convolutions; the kernels have their own tests."""

import pytest

from sparkflow_runtime.codegen.depthwise.depthwise_ir import Form, Member, text
from sparkflow_runtime.codegen.depthwise.meetings import of_elements, of_results, patterns
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.windows import Layout
from support.assembly import PROCESSORS, blocks, count

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")


@pytest.mark.parametrize("member", list(Member), ids=str)
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("name", list(PROCESSORS))
def test_products_are_added_in_registers(name: str, multiplier: int, member: Member) -> None:
    _, _, vector_bytes, product, spill = PROCESSORS[name]
    width = 4 if name == "avx2" and multiplier == 2 else 8
    window = Layout((1,), (1,), "SAME", ((0, 0),), "NWC").windows((64,), (3,))[0]
    meetings = (of_elements if member is Member.IMAGE else of_results)(window, 64)
    found = tuple(patterns(meetings, width, member is not Member.FILTER))
    form = Form(member, "float", vector_bytes // 4, multiplier, False, found, True, False)
    inner = max(blocks(name, text(form)), key=lambda block: count(product, block))
    assert count(product, inner) == 3 * width * multiplier
    # A filter gradient takes outputs apart, for which AVX2 has too few registers.
    if (name, multiplier, member) != ("avx2", 2, Member.FILTER):
        assert count(spill, inner) == 0
