import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import float32

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")


def moved(length, width, cut):
    """A function of rows, consecutive columns, and rows again; for this many rows if cut."""
    from llvmlite import ir

    from sparkflow_runtime.codegen.cpu.loop_columns import load_columns, store_columns
    from sparkflow_runtime.codegen.cpu.loop_memory import (
        I32,
        I64,
        POINTER,
        Array,
        Cut,
        Memory,
        number,
    )
    from sparkflow_runtime.codegen.cpu.loop_vectors import counting

    module = ir.Module(context=ir.Context())
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I64, I64])
    function = ir.Function(module, kind, name="body")
    entry, start = (function.append_basic_block(name) for name in ("entry", "start"))
    ir.IRBuilder(entry).branch(start)
    builder, memory = ir.IRBuilder(start), Memory(entry, has_masks=False)
    places = [builder.gep(function.args[1], [number(i)], source_etype=POINTER) for i in range(3)]
    rows, columns, again = (builder.load(each, typ=POINTER) for each in places)
    array = Array(rows, float32, (True,), [number(cut or width)], step=length)
    part = None
    if cut:
        limits = ir.Constant(ir.VectorType(I32, width), [cut] * width)
        part = Cut(number(cut), builder.icmp_signed("<", counting(I32, width), limits))
    loaded = load_columns(builder, memory, array, rows, width, part)
    for place, column in enumerate(loaded):
        builder.store(column, array.neighbour(builder, columns, place * width), align=4)
    store_columns(builder, memory, array, loaded, again, part)
    builder.ret_void()
    text = "\n".join(str(each) for each in module.globals.values())
    counts = [length * (cut or width), length * width, length * width]
    return native.body(text).bind((), counts, 1)


@pytest.mark.parametrize("length", [2, 3, 4, 5, 7])
@pytest.mark.parametrize(("width", "cut"), [(4, 0), (8, 0), (8, 1), (16, 11)])
def test_rows_to_columns_and_back(length, width, cut):
    count = cut or width
    rows = np.random.default_rng(1).standard_normal((count, length), np.float32)
    columns = np.full((length, width), 7, np.float32)
    again = np.full((width, length), 7, np.float32)
    assert moved(length, width, cut)(rows, columns, again)
    np.testing.assert_array_equal(columns[:, :count], rows.T)
    assert not columns[:, count:].any()
    np.testing.assert_array_equal(again[:count], rows)
    assert np.all(again[count:] == 7)  # nothing is written next to them
