"""One rule on several sets of arrays."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.ir.builder import KernelBuilder
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows import rule_groups, sparse_rows_update
from sparkflow_runtime.dtypes import float32

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

SIZES = (0, 1, 7, 8, 100, 33)


def momentum():
    """`slot = slot + update; table -= slot * rate`."""
    builder = KernelBuilder(1)
    table, slot, update = (builder.input(float32, (True,)) for _ in range(3))
    rate = builder.input(float32, (False,))
    moved = slot + update
    builder.output(table - moved * rate)
    builder.output(moved)
    arrays = ("table0", "table1", "update", "scalar0", "table0", "table1")
    return sparse_rows_update.rule(builder.build(), arrays)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_set_is_changed_as_the_rule_says(threads):
    rate = np.array(0.5, np.float32)
    tables, slots, updates = (
        [np.arange(size, dtype=np.float32) + first for size in SIZES] for first in (1, 2, 3)
    )
    before = [(table.copy(), slot.copy()) for table, slot in zip(tables, slots, strict=True)]
    counts = [1, *(size for size in SIZES for _ in range(2)), *SIZES]
    body = native.body(rule_groups.group(momentum()))
    run = body.bind([len(SIZES), *SIZES], counts, len(SIZES), threads)
    pairs = [each for pair in zip(tables, slots, strict=True) for each in pair]
    assert run(rate, *pairs, *updates)
    for (table, slot), new, moved, update in zip(before, tables, slots, updates, strict=True):
        np.testing.assert_array_equal(moved, slot + update)
        np.testing.assert_array_equal(new, table - moved * rate)
