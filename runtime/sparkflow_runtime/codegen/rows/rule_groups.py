"""Machine code that applies one rule to many small arrays: one call for a whole model.

Rules are those of `sparse_rows_update`, here for whole arrays instead of rows.
"""

from __future__ import annotations

from sparkflow_runtime.codegen.rows.sparse_rows_update import SIGNATURE, Rule, joined


def group(rule: Rule) -> str:
    """Returns code that applies the rule to several sets of arrays with the same scalars.

    Arrays: the scalars; the tables, set by set; the update of each set. Numbers: the number of
    sets, then the sizes of their arrays. The loop is over the sets.

    Args:
        rule: The rule, which treats whole arrays as rows.
    """
    tables, scalars = rule.count("table"), rule.count("scalar")
    places = {f"scalar{i}": ("%arrays", i) for i in range(scalars)}
    places |= {f"table{i}": ("%set", i) for i in range(tables)}
    places["update"] = ("%update", 0)
    wires = "".join(
        f"""
  %from_{i} = getelementptr ptr, ptr {places[name][0]}, i64 {places[name][1]}
  %array_{i} = load ptr, ptr %from_{i}
  %wire_{i} = getelementptr ptr, ptr %wires, i64 {i}
  store ptr %array_{i}, ptr %wire_{i}"""
        for i, name in enumerate(rule.arrays)
    )
    return joined(
        rule.text,
        f"""
{SIGNATURE} {{
start:
  %wires = alloca ptr, i64 {len(rule.arrays)}
  %row_sizes = alloca [3 x i64]
  store [3 x i64] [i64 0, i64 1, i64 0], ptr %row_sizes
  %sets = getelementptr ptr, ptr %arrays, i64 {scalars}
  %count = load i64, ptr %sizes
  %tables = mul i64 %count, {tables}
  %updates = getelementptr ptr, ptr %sets, i64 %tables
  %any = icmp slt i64 %lo, %hi
  br i1 %any, label %loop, label %end
loop:
  %i = phi i64 [%lo, %start], [%next, %loop]
  %next = add i64 %i, 1
  %first = mul i64 %i, {tables}
  %set = getelementptr ptr, ptr %sets, i64 %first
  %update = getelementptr ptr, ptr %updates, i64 %i
  %at_size = getelementptr i64, ptr %sizes, i64 %next
  %size = load i64, ptr %at_size
  store i64 %size, ptr %row_sizes{wires}
  call void @rule(ptr %row_sizes, ptr %wires, i64 0, i64 %size, i64 0)
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %end
end:
  ret void
}}
""",
    )
