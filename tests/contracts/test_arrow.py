"""Arrow is converted to arrays in one module, with one set of rules for nulls, dates, decimals."""

import pytest

from support.arrow_places import decodes_arrow, places
from support.import_graph import modules

DECODER = "sparkflow_runtime.resources.datasets.arrow_columns"


def test_one_module_knows_how_arrow_lays_values_out():
    ours = {name: path for name, path in modules().items() if not name.startswith("support")}
    others = [name for name in places(ours) if name != DECODER]
    assert not others, f"{others} convert Arrow to arrays: use {DECODER}, or extend it"
    assert decodes_arrow(ours[DECODER].read_text())


@pytest.mark.parametrize(
    "line",
    [
        "rows = table.column(0).to_pylist()",
        "values = column.to_numpy(zero_copy_only=False)",
        "present = np.asarray(array.is_valid())",
        "data = np.ascontiguousarray(values.cast(pa.float32()), '<f4')",
    ],
)
def test_such_lines_are_found(line):
    assert decodes_arrow(f"import numpy as np\nimport pyarrow as pa\n{line}\n")


@pytest.mark.parametrize(
    "line", ["flat = nest.flatten(datasets)", "last = scalar.as_py()", "x = np.asarray(given)"]
)
def test_others_are_not(line):
    assert not decodes_arrow(f"import numpy as np\nimport pyarrow as pa\n{line}\n")
