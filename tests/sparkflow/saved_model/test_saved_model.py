import json
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.graph.nodes import reach
from sparkflow.saved_model import loader

GOLDEN = Path(__file__).parents[2] / "golden/checkpoints"


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def build(session):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.Variable([[1.0], [2.0]], name="w")
    y = tf.matmul(x, w, name="y")
    session.run(tf.global_variables_initializer())
    return x, y


def test_models_of_tensorflow(graph):
    expected = json.loads((GOLDEN / "saved_model/expected.json").read_text())
    with tf.Session() as session:
        message = tf.saved_model.load(session, ["serve"], GOLDEN / "saved_model")
        signature = message.signature_def["serving_default"]
        image, y = signature.inputs["image"], signature.outputs["probabilities"]
        found = session.run(y.name, {image.name: expected["images"]})
        np.testing.assert_allclose(found, expected["probabilities"], rtol=1e-5)
        assert session.run("ready:0") == 0  # the main op ran
        assert message.collection_def["saved_model_assets"].any_list.value


def test_models_of_tensorflow_in_a_scope(graph):
    expected = json.loads((GOLDEN / "saved_model/expected.json").read_text())
    with tf.Session() as session:
        tf.saved_model.loader.load(session, {"serve"}, GOLDEN / "simple", import_scope="sub")
        found = session.run("sub/probabilities:0", {"sub/image:0": expected["images"]})
    np.testing.assert_allclose(found, expected["probabilities"], rtol=1e-5)


def saved(tmp_path, build, init):
    """A saved model with an asset, as written by another program."""
    (tmp_path / "words").write_text("one\ntwo\n")
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        asset = tf.constant(str(tmp_path / "words"), name="asset")
        tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
        build(asset)
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=init(asset),
        )
        builder.save()
    reach._ours.clear()
    (tmp_path / "words").unlink()
    return folder


def table(asset):
    tf.Variable(1.0, name="v")
    words = tf.lookup.index_table_from_file(asset)
    tf.identity(words.lookup(tf.constant(["two"])), name="y")


def test_a_strange_model_reads_its_own_assets_however_often(tmp_path):
    folder = saved(tmp_path, table, lambda asset: tf.tables_initializer())
    for scope in (None, "sub"):
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            tf.saved_model.load(session, ["serve"], folder, import_scope=scope)
            prefix = f"{scope}/" if scope else ""
            assert session.run(f"{prefix}y:0") == [1]
            asset = session.run(f"{prefix}asset:0")
            assert asset.decode() == f"{folder}/assets/words"


@pytest.mark.parametrize(
    ("build", "init", "op_type"),
    [
        (
            lambda asset: (
                tf.lookup.index_table_from_file("/etc/passwd"),
                tf.get_collection_ref(tf.GraphKeys.ASSET_FILEPATHS).pop(),
            ),
            lambda asset: tf.tables_initializer(),
            "InitializeTableFromTextFileV2",
        ),
        (
            lambda asset: tf.Variable(1.0),
            lambda asset: tf.group(tf.write_file("/etc/cron.d/x", "y")),
            "WriteFile",
        ),
        (
            lambda asset: tf.Variable(1.0),
            lambda asset: tf.group(tf.read_file(tf.string_join([asset, "/../../secret"]))),
            "ReadFile",
        ),
    ],
    ids=["table", "write", "beside an asset"],
)
def test_a_strange_model_with_other_files_is_refused_before_anything_runs(
    tmp_path, build, init, op_type
):
    folder = saved(tmp_path, build, init)
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        with pytest.raises(tf.errors.PermissionDeniedError, match=op_type) as caught:
            tf.saved_model.load(session, ["serve"], folder)
        assert folder in str(caught.value)
        assert not graph.get_operations()
    if op_type == "InitializeTableFromTextFileV2":
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            tf.saved_model.load(session, ["serve"], folder, allowed_ops=[op_type])


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../../b", "", "s3://x/y", "."])
def test_assets_that_lie_elsewhere_are_refused(tmp_path, name):
    folder = saved(tmp_path, table, lambda asset: tf.tables_initializer())
    path = f"{folder}/saved_model.pb"
    model = loader.parse_saved_model(folder)
    model.meta_graphs[0].asset_file_def[0].filename = name
    Path(path).write_bytes(model.SerializeToString())
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.PermissionDeniedError, match="does not lie in"),
    ):
        tf.saved_model.load(session, ["serve"], folder)


@pytest.mark.parametrize("as_text", [False, True])
def test_own_models_with_assets_and_main_op(tmp_path, as_text):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/words").write_text("one")
    (tmp_path / "b/words").write_text("two")
    folder = tmp_path / "model"
    with tf.Session() as session:
        x, y = build(session)
        assets = [
            tf.constant(str(tmp_path / "a/words"), name="first"),
            tf.constant(str(tmp_path / "b/words"), name="second"),
        ]
        used = tf.Variable("", name="used", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder = tf.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            {"serving_default": signature},
            assets_collection=assets,
            main_op=tf.group(used.assign(assets[1])),
        )
        builder.add_meta_graph(["train", "gpu"])
        assert builder.save(as_text).endswith("saved_model.pbtxt" if as_text else "saved_model.pb")
    assert tf.saved_model.contains_saved_model(folder)
    with tf.Graph().as_default(), tf.Session() as session:
        message = tf.saved_model.load(session, ["serve"], folder)
        assert session.run("y:0", {"x:0": [[1.0, 1.0]]}).tolist() == [[3]]
        path = session.run("used:0").decode()
        assert path == str(folder / "assets/words_1")
        assert Path(path).read_text() == "two"
        info = message.signature_def["serving_default"].outputs["y"]
        tensor = tf.saved_model.get_tensor_from_tensor_info(info)
        assert tensor.name == "y:0"
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.load(session, ["gpu", "train"], folder)
        assert session.run("w:0").tolist() == [[1], [2]]
        with pytest.raises(RuntimeError, match="associated with tags"):
            tf.saved_model.load(session, ["train"], folder)
        with pytest.raises(OSError, match="SavedModel file does not exist at"):
            tf.saved_model.load(session, ["train"], tmp_path)


def test_simple_save(tmp_path):
    with tf.Session() as session:
        x, y = build(session)
        tf.saved_model.simple_save(session, tmp_path / "m", {"x": x}, {"y": y})
    (message,) = loader.parse_saved_model(tmp_path / "m").meta_graphs
    signature = message.signature_def["serving_default"]
    assert signature.method_name == "tensorflow/serving/predict"
    assert signature.inputs["x"].name == "x:0"
    assert [dim.size for dim in signature.inputs["x"].tensor_shape.dim] == [-1, 2]
    assert tf.saved_model.is_valid_signature(signature)


def test_models_without_variables(tmp_path):
    with tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.saved_model.simple_save(session, tmp_path / "m", {"x": x}, {"y": tf.add(x, 1.0, "y")})
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.load(session, ["serve"], tmp_path / "m")
        assert session.run("y:0", {"x:0": 1.0}) == 2


def test_builders_refuse_what_would_be_lost(tmp_path):
    with tf.Session() as session:
        x, _ = build(session)
        builder = tf.saved_model.builder.SavedModelBuilder(tmp_path / "m")
        with pytest.raises(AssertionError, match="has not been saved yet"):
            builder.add_meta_graph(["serve"])
        empty = tf.saved_model.build_signature_def({"x": tf.saved_model.build_tensor_info(x)})
        empty.inputs["x"].dtype = 0
        with pytest.raises(AssertionError, match="must have the name and dtype"):
            builder.add_meta_graph_and_variables(session, ["serve"], {"a": empty})
        with pytest.raises(TypeError, match="main_op needs to be an Operation"):
            builder.add_meta_graph_and_variables(session, ["serve"], main_op=x)
        with pytest.raises(TypeError, match="must be of type constant"):
            builder.add_meta_graph_and_variables(session, ["serve"], assets_collection=[x])
        builder.add_meta_graph_and_variables(session, ["serve"], main_op=tf.no_op())
        with pytest.raises(AssertionError, match="has already been saved"):
            builder.add_meta_graph_and_variables(session, ["serve"])
        with pytest.raises(ValueError, match="already contains one or more main ops"):
            builder.add_meta_graph(["serve"], main_op=tf.no_op())
        with pytest.raises(AssertionError, match="already exists, and isn't empty"):
            tf.saved_model.Builder(tmp_path / "m")


def test_signatures():
    text, number = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None])
    classify = tf.saved_model.classification_signature_def(text, text, number)
    regress = tf.saved_model.regression_signature_def(text, number)
    assert classify.method_name == "tensorflow/serving/classify"
    assert regress.outputs["outputs"].dtype == 1
    assert all(map(tf.saved_model.is_valid_signature, (classify, regress)))
    del classify.outputs["classes"], classify.outputs["scores"]
    assert not tf.saved_model.is_valid_signature(classify)
    assert not tf.saved_model.is_valid_signature(tf.saved_model.build_signature_def())
    assert not tf.saved_model.is_valid_signature(None)
    with pytest.raises(ValueError, match="cannot both be None"):
        tf.saved_model.classification_signature_def(text, None, None)
    with pytest.raises(ValueError, match="must be of type float32, got string"):
        tf.saved_model.regression_signature_def(text, text)
    for inputs, outputs in (({}, {"y": text}), ({"x": text}, None)):
        with pytest.raises(ValueError, match="cannot be None or empty"):
            tf.saved_model.predict_signature_def(inputs, outputs)


def test_main_ops():
    v = tf.Variable(1.0)
    local = tf.Variable(2.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    with tf.Session() as session:
        session.run(tf.saved_model.main_op.main_op())
        assert session.run([v, local]) == [1, 2]
        restore = v.assign(5.0).op
        session.run(tf.saved_model.main_op_with_restore(restore.name))
        assert session.run(local) == 2
