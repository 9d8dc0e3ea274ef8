import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles.gemm_form import Size
from sparkflow_runtime.codegen.tiles.small_product import text

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.mark.parametrize(("lanes", "rows"), [(4, 4), (8, 4), (16, 8), (4, 1)])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (5, 9, 3), (15, 33, 64), (9, 1, 64), (3, 1, 21)]
)
def test_forms_of_other_processors(lanes: int, rows: int, m: int, n: int, k: int) -> None:
    numbers = np.random.default_rng(0)
    left, right = numbers.normal(size=(m, k)), numbers.normal(size=(n, k))
    out = np.empty((m, n))
    sizes = [0] * len(Size)
    sizes[Size.M], sizes[Size.N], sizes[Size.K] = m, n, k
    sizes[Size.LEFT_ROW], sizes[Size.LEFT_DEPTH] = k, 1
    sizes[Size.RIGHT_DEPTH], sizes[Size.RIGHT_COLUMN] = 1, k
    body = native.body(text("double", lanes, rows), is_tidy=True)
    assert body.bind(sizes, (m * k, n * k, m * n), 0)(left, right, out)
    np.testing.assert_allclose(out, left @ right.T)
