"""Which columns of a table can be read, and how a file stores them."""

import pyarrow as pa
import pyarrow.parquet as pq

from sparkflow.spark.data.tables.columns import layout_of, names_by_id, readable

VECTOR = pa.struct(
    {
        "type": pa.int8(),
        "size": pa.int32(),
        "indices": pa.list_(pa.int32()),
        "values": pa.list_(pa.float64()),
    }
)


def test_structs_are_left_out_but_for_vectors():
    schema = pa.schema(
        {
            "x": pa.large_string(),
            "list": pa.large_list(pa.large_string()),
            "struct": pa.struct({"a": pa.int8()}),
            "structs": pa.list_(pa.struct({"a": pa.int8()})),
            "map": pa.map_(pa.string(), pa.int8()),
            "vector": VECTOR,
        }
    )
    found = readable(schema, vectors=True)
    assert found.names == ["x", "list", "vector"]
    assert found.types[:2] == [pa.string(), pa.list_(pa.string())]
    assert readable(schema, vectors=False).names == ["x", "list"]


def test_what_a_file_lacks_is_null_or_known(tmp_path):
    fields = [
        pa.field("a", pa.int8(), metadata={"PARQUET:field_id": "4"}),
        pa.field("b", pa.int8()),
    ]
    table = pa.table([[1], [2]], schema=pa.schema(fields))
    pq.write_table(table, tmp_path / "a.parquet")
    footer = pq.read_metadata(tmp_path / "a.parquet")
    assert names_by_id(footer) == {4: "a"}
    stored = {"x": "a", "b": "b", "y": None, "z": "gone", "day": "day"}
    layout = layout_of(footer, stored, {"day": "2026-11-24"}, "")
    assert layout.stored == {"x": "a"}
    assert layout.constants == {"day": "2026-11-24", "y": None, "z": None}
