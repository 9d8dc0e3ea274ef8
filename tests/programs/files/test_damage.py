"""Every byte of every file changed, and every cut: the same is read, or an error names the file.

The files of models, of trainers' checkpoints, of V2 checkpoints, tensors and streams have such
tests next to those of their modules; these are for graphs, saved models and state files.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.saved_model.loader import parse_saved_model
from sparkflow.train.checkpoints.meta_graph import read_meta_graph_file
from support.damage import damages


def meta_graph(folder: Path) -> Callable[[], Any]:
    with tf.Graph().as_default():
        tf.constant(1.5, name="n")
        tf.train.export_meta_graph(folder / "a.meta")
    return lambda: read_meta_graph_file(folder / "a.meta")


def text_meta_graph(folder: Path) -> Callable[[], Any]:
    with tf.Graph().as_default():
        tf.constant(1.5, name="n")
        tf.train.export_meta_graph(folder / "a.meta", as_text=True)
    return lambda: read_meta_graph_file(folder / "a.meta")


def state_file(folder: Path) -> Callable[[], Any]:
    for number in (1, 2):
        (folder / f"model-{number}.index").touch()
    paths = [f"{folder}/model-1", f"{folder}/model-2"]
    tf.train.update_checkpoint_state(str(folder), paths[1], paths)
    return lambda: tf.train.get_checkpoint_state(str(folder))


def saved_model(folder: Path, as_text: bool = False) -> Callable[[], Any]:
    (folder / "words").write_text("a\nb\n")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("v", initializer=1.0)
        words = [tf.constant(f"{folder}/words")]
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(str(folder / "model"))
        builder.add_meta_graph_and_variables(session, ["serve"], assets_collection=words)
        builder.save(as_text)
    (folder / "words").unlink()
    return lambda: parse_saved_model(folder / "model")


def text_saved_model(folder: Path) -> Callable[[], Any]:
    return saved_model(folder, as_text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [meta_graph, text_meta_graph, state_file, saved_model, text_saved_model]
)
def test_no_damage_gives_another_message(make: Callable[[Path], Any], tmp_path: Path) -> None:
    read = make(tmp_path)
    expected = read()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    found = [path for path in files if path.parent.name != "variables"]
    assert found
    for path in found:
        good = path.read_bytes()
        said = []
        for damaged in damages(good):
            path.write_bytes(damaged)
            try:
                assert read() == expected
            except (tf.errors.DataLossError, OSError, ValueError) as error:
                said.append(str(error))
        path.write_bytes(good)
        assert len(said) > 2 * min(len(good), 2048)
        assert all(str(path.parent) in each for each in said)


def test_what_other_programs_write_again_is_read(tmp_path: Path) -> None:
    """Their protobuf collects the marks, which are unknown to it, at the end."""
    meta_graph(tmp_path)()
    message = tf.MetaGraphDef.FromString((tmp_path / "a.meta").read_bytes())
    message.meta_info_def.meta_graph_version = "another"
    (tmp_path / "a.meta").write_bytes(message.SerializeToString())
    found = read_meta_graph_file(tmp_path / "a.meta")
    assert found.meta_info_def.meta_graph_version == "another"


def test_an_edited_state_file_is_told_how_to_be_taken(tmp_path: Path) -> None:
    state_file(tmp_path)
    path = tmp_path / "checkpoint"
    edited = path.read_text().replace("model-2", "model-1")
    path.write_text(edited)
    with pytest.raises(tf.errors.DataLossError, match="delete its first and its last line"):
        tf.train.latest_checkpoint(str(tmp_path))
    path.write_text("\n".join(line for line in edited.splitlines() if line[0] != "#"))
    assert tf.train.latest_checkpoint(str(tmp_path)) == f"{tmp_path}/model-1"
