"""SaveV2, RestoreV2, Save, SaveSlices, Restore, RestoreSlice, MergeV2Checkpoints, names."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from support.eager import EagerBuilder


def texts(*values):
    return np.array([value.encode() for value in values], object)


def scalar(value):
    return np.array(str(value).encode(), object)


@pytest.fixture
def g():
    return EagerBuilder()


def save(g, prefix, tensors, specs=None):
    names = texts(*tensors)
    specs = texts(*(specs or [""] * len(tensors)))
    g.SaveV2(
        g.const(scalar(prefix)),
        g.const(names),
        g.const(specs),
        [g.tensor(value) for value in tensors.values()],
    )


def restore(g, prefix, names, types, specs=None):
    result = g.RestoreV2(
        g.const(scalar(prefix)),
        g.const(texts(*names)),
        g.const(texts(*(specs or [""] * len(names)))),
        dtypes=types,
    )
    return [each.value for each in result]


def test_what_was_saved_is_restored_whole_and_in_part(g, tmp_path):
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    save(g, tmp_path / "x", {"a": matrix, "s": texts("one", "", "two")})
    a, s = restore(g, tmp_path / "x", ["a", "s"], [dtypes.float32, dtypes.string])
    np.testing.assert_array_equal(a, matrix)
    assert s.tolist() == [b"one", b"", b"two"]
    (part,) = restore(g, tmp_path / "x", ["a"], [dtypes.float32], ["4 3 1,2:-"])
    np.testing.assert_array_equal(part, matrix[1:3])


def test_a_slice_tells_the_static_shape(g, tmp_path):
    save(g, tmp_path / "x", {"a": np.zeros((4, 3), np.float32)})
    (part,) = g.RestoreV2(
        g.const(scalar(tmp_path / "x")),
        g.const(texts("a")),
        g.const(texts("4 3 1,2:-")),
        dtypes=[dtypes.float32],
    )
    assert part.static_shape == (2, 3)


def test_parts_make_a_whole(g, tmp_path):
    g.SaveV2(
        g.const(scalar(tmp_path / "x")),
        g.const(texts("v", "v")),
        g.const(texts("5 2 0,2:0,2", "5 2 2,3:0,2")),
        [g.tensor(np.zeros((2, 2), np.int64)), g.tensor(np.ones((3, 2), np.int64))],
    )
    whole, across = restore(g, tmp_path / "x", ["v", "v"], [dtypes.int64] * 2, ["", "5 2 1,2:0,1"])
    np.testing.assert_array_equal(whole[:, 0], [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(across, [[0], [1]])


def test_shards_are_merged_and_their_directory_goes(g, tmp_path):
    prefixes = []
    for shard in range(2):
        name = g.ShardedFilename(
            g.const(scalar(tmp_path / "temp" / "part")),
            g.const(np.int32(shard)),
            g.const(np.int32(2)),
        ).value
        assert name[()].endswith(f"part-0000{shard}-of-00002".encode())
        save(g, name[()].decode(), {f"v{shard}": np.float64(shard)})
        prefixes.append(name[()].decode())
    g.MergeV2Checkpoints(g.const(texts(*prefixes)), g.const(scalar(tmp_path / "all")))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "all.data-00000-of-00002",
        "all.data-00001-of-00002",
        "all.index",
    ]
    assert restore(g, tmp_path / "all", ["v0", "v1"], [dtypes.float64] * 2) == [0.0, 1.0]


def test_shards_that_may_be_missing_are_skipped(g, tmp_path):
    save(g, tmp_path / "one", {"v": np.float64(4)})
    prefixes = g.const(texts(str(tmp_path / "one"), str(tmp_path / "two")))
    target = g.const(scalar(tmp_path / "all"))
    with pytest.raises(NotFoundError, match="two"):
        g.MergeV2Checkpoints(prefixes, target)
    g.MergeV2Checkpoints(prefixes, target, allow_missing_files=True)
    assert restore(g, tmp_path / "all", ["v"], [dtypes.float64]) == [4.0]


def test_ops_of_the_first_releases(g, tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    g.Save(g.const(scalar(tmp_path / "x")), g.const(texts("a")), [g.tensor(values)])
    found = g.Restore(g.const(scalar(tmp_path / "x")), g.const(scalar("a")), dt=dtypes.float32)
    np.testing.assert_array_equal(found.value, values)
    g.SaveSlices(
        g.const(scalar(tmp_path / "y")),
        g.const(texts("a")),
        g.const(texts("3 4 -:0,2")),
        [g.tensor(values)],
    )
    found = g.RestoreSlice(
        g.const(scalar(tmp_path / "y")),
        g.const(scalar("a")),
        g.const(scalar("3 4 0,1:0,2")),
        dt=dtypes.float32,
    )
    np.testing.assert_array_equal(found.value, values[:1])


def test_patterns_of_shards(g):
    found = g.ShardedFilespec(g.const(scalar("base")), g.const(np.int32(3)))
    assert found.value[()] == b"base-?????-of-00003"


@pytest.mark.parametrize(
    ("names", "types", "specs", "error", "message"),
    [
        (["b"], [dtypes.float32], None, NotFoundError, "Key b not found in checkpoint"),
        (
            ["a"],
            [dtypes.int32],
            None,
            InvalidArgumentError,
            "expected dtype int32 does not equal original dtype float32",
        ),
        (
            ["a"],
            [dtypes.float32],
            ["5 3 0,1:-"],
            InvalidArgumentError,
            r"shape in shape_and_slice spec \[5,3\] does not match the shape stored in "
            r"checkpoint: \[4,3\]",
        ),
        (["a"], [dtypes.float32], ["4 3 3,2:-"], InvalidArgumentError, "out of range"),
        (["a"], [dtypes.float32], ["nonsense"], InvalidArgumentError, "shape_and_slice spec"),
        (["a", "a"], [dtypes.float32], None, InvalidArgumentError, "1 tensors, 2 tensor_names"),
    ],
)
def test_what_cannot_be_restored(g, tmp_path, names, types, specs, error, message):
    save(g, tmp_path / "x", {"a": np.zeros((4, 3), np.float32)})
    with pytest.raises(error, match=message):
        restore(g, tmp_path / "x", names, types, specs)


def test_a_checkpoint_that_is_not_there(g, tmp_path):
    with pytest.raises(NotFoundError, match="Failed to find any matching files for"):
        restore(g, tmp_path / "none", ["a"], [dtypes.float32])


@pytest.mark.parametrize(
    ("names", "specs", "message"),
    [
        (["a"], ["3 0,1"], r"shape \(1,\), the value to save has \(2,\)"),
        (["a", "b"], [""], "1 tensors, 2 tensor_names"),
        ([""], [""], "duplicate key"),
    ],
)
def test_what_cannot_be_saved(g, tmp_path, names, specs, message):
    with pytest.raises(InvalidArgumentError, match=message):
        g.SaveV2(
            g.const(scalar(tmp_path / "x")),
            g.const(texts(*names)),
            g.const(texts(*specs)),
            [g.tensor(np.zeros(2, np.float32))],
        )
    assert list(tmp_path.iterdir()) == []


def test_one_name_twice_is_refused(g, tmp_path):
    with pytest.raises(InvalidArgumentError, match="Adding duplicate key: 'a'"):
        g.SaveV2(
            g.const(scalar(tmp_path / "x")),
            g.const(texts("a", "a")),
            g.const(texts("", "")),
            [g.tensor(np.zeros(2)), g.tensor(np.zeros(2))],
        )
