import pytest

import sparkflow as tf


def test_text_and_bytes(tmp_path):
    path = str(tmp_path / "a.txt")
    with tf.gfile.GFile(path, "w") as f:
        f.write("größe\n")
        f.write(b"two\n")
    with tf.gfile.Open(path) as f:
        assert f.readline() == "größe\n"
        assert f.tell() == 8
        assert f.read() == "two\n"
        f.seek(0)
        assert f.readlines() == ["größe\n", "two\n"]
        f.seek(-4, 2)
        assert list(f) == ["two\n"]
        f.seek(position=8)
        assert f.read(2) == "tw"
        assert f.size() == 12
    assert tf.gfile.FastGFile(path, "rb").read() == "größe\ntwo\n".encode()
    with tf.gfile.GFile(path, "a") as f:
        f.write("three")
        f.flush()
    assert tf.gfile.GFile(path).read().endswith("three")
    with tf.gfile.GFile(path, "r+") as f:
        f.write("G")

    assert tf.gfile.Stat(path).length == 17


def test_modes_and_positions_are_checked(tmp_path):
    path = str(tmp_path / "a.txt")
    with tf.gfile.GFile(path, "w") as f:
        f.write("x")
        with pytest.raises(tf.errors.PermissionDeniedError, match="open for reading"):
            f.read()
    with tf.gfile.GFile(path) as f:
        with pytest.raises(tf.errors.PermissionDeniedError, match="open for writing"):
            f.write("x")
        with pytest.raises(tf.errors.OutOfRangeError):
            f.seek(-1)
        with pytest.raises(tf.errors.InvalidArgumentError):
            f.seek(0, 5)
        with pytest.raises(TypeError, match="offset argument required"):
            f.seek()
    with pytest.raises(tf.errors.InvalidArgumentError, match="mode is not"):
        tf.gfile.GFile(path, "x")


def test_a_missing_file_is_noticed_when_it_is_read(tmp_path):
    f = tf.gfile.GFile(str(tmp_path / "none"))
    with pytest.raises(tf.errors.NotFoundError, match="No such file"):
        f.read()


def test_old_names_and_new_ones(tmp_path):
    root = str(tmp_path)
    tf.gfile.MkDir(f"{root}/d")
    tf.gfile.MakeDirs(f"{root}/d/e/f")
    with tf.io.gfile.GFile(f"{root}/d/x", "w") as f:
        f.write("1")
    tf.gfile.Copy(f"{root}/d/x", f"{root}/d/y")
    tf.gfile.Rename(f"{root}/d/y", f"{root}/d/z")
    assert tf.gfile.ListDirectory(f"{root}/d") == tf.io.gfile.listdir(f"{root}/d")
    assert tf.gfile.Glob(f"{root}/d/?") == tf.io.gfile.glob([f"{root}/d/?"])
    assert tf.gfile.IsDirectory(f"{root}/d/e")
    assert not tf.io.gfile.isdir(f"{root}/d/x")
    assert list(tf.gfile.Walk(root)) == list(tf.io.gfile.walk(root))
    assert list(tf.io.gfile.walk(root, topdown=False))[-1][0] == root
    assert tf.io.gfile.stat(f"{root}/d").is_directory
    tf.io.gfile.mkdir(f"{root}/n")
    tf.io.gfile.makedirs(f"{root}/n/m")
    tf.io.gfile.copy(f"{root}/d/x", f"{root}/n/x")
    tf.io.gfile.rename(f"{root}/n/x", f"{root}/n/y")
    tf.io.gfile.remove(f"{root}/n/y")
    tf.gfile.Remove(f"{root}/d/x")
    tf.io.gfile.rmtree(f"{root}/n")
    tf.gfile.DeleteRecursively(f"{root}/d")
    assert not tf.gfile.Exists(f"{root}/d")
    assert not tf.io.gfile.exists(f"{root}/n")
    assert tf.io.gfile.join("a", "b") == "a/b"
    seen = []
    assert list(tf.io.gfile.walk(f"{root}/none", onerror=seen.append)) == []
    assert isinstance(seen[0], tf.errors.NotFoundError)
