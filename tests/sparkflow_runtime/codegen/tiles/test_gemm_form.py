import pytest

from sparkflow_runtime.codegen.tiles.gemm_form import Form, Size


@pytest.mark.parametrize(
    ("lanes", "vectors", "columns", "packed", "fetches"),
    [(8, 2, 17, 32, True), (8, 2, 32, 32, True), (4, 3, 1, 12, False), (2, 3, 6, 6, False)],
)
def test_a_packed_factor_has_whole_tiles(
    lanes: int, vectors: int, columns: int, packed: int, fetches: bool
) -> None:
    form = Form("float", lanes, 6, vectors, 384, 1 << 18, 128)
    assert form.columns == lanes * vectors
    assert form.packed_columns(columns) == packed
    assert form.fetches_ahead is fetches


def test_code_that_is_kept_finds_each_size_where_it_was() -> None:
    """Cached kernels on disk read them by these numbers."""
    assert [each.value for each in Size] == list(range(21))
    assert (Size.M, Size.COUNT, Size.SCALES, Size.COLUMN_PARTS) == (0, 8, 17, 20)
