"""Canned estimators: their results computed by hand, keys, names, signatures."""

import numpy as np
import pytest

import sparkflow as tf

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(200, 2).astype(np.float32)
TWO = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
THREE = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0)
NUMBER = (X @ [1.0, 2.0] + 3).astype(np.float32)
COLUMNS = [tf.feature_column.numeric_column("x", shape=[2])]
CONFIG = tf.estimator.RunConfig(tf_random_seed=1)
CLASSIFIERS = {
    "linear": lambda **given: tf.estimator.LinearClassifier(COLUMNS, **given),
    "deep": lambda **given: tf.estimator.DNNClassifier([16, 16], COLUMNS, **given),
    "both": lambda **given: tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=COLUMNS,
        dnn_feature_columns=COLUMNS,
        dnn_hidden_units=[16],
        dnn_optimizer=lambda: tf.train.AdagradOptimizer(0.05),
        **given,
    ),
    "baseline": lambda **given: tf.estimator.BaselineClassifier(**given),
}
REGRESSORS = {
    "linear": lambda **given: tf.estimator.LinearRegressor(COLUMNS, **given),
    "deep": lambda **given: tf.estimator.DNNRegressor([16], COLUMNS, **given),
    "both": lambda **given: tf.estimator.DNNLinearCombinedRegressor(
        linear_feature_columns=COLUMNS,
        dnn_feature_columns=COLUMNS,
        dnn_hidden_units=[16],
        dnn_optimizer=lambda: tf.train.AdagradOptimizer(0.05),
        **given,
    ),
    "baseline": lambda **given: tf.estimator.BaselineRegressor(**given),
}


def batches(labels, epochs=None, size=50, **more):
    return tf.estimator.inputs.numpy_input_fn(
        {"x": X, **more}, labels, batch_size=size, num_epochs=epochs, shuffle=False
    )


def test_a_deep_classifier_learns_what_a_linear_one_cannot(tmp_path):
    deep = CLASSIFIERS["deep"](model_dir=str(tmp_path), config=CONFIG)
    deep.train(batches(TWO), steps=400)
    found = deep.evaluate(batches(TWO, 1))
    assert found["accuracy"] > 0.97
    assert set(found) == {
        "accuracy",
        "accuracy_baseline",
        "auc",
        "auc_precision_recall",
        "average_loss",
        "global_step",
        "label/mean",
        "loss",
        "precision",
        "prediction/mean",
        "recall",
    }
    assert found["label/mean"] == pytest.approx(TWO.mean())
    np.testing.assert_allclose(found["loss"], found["average_loss"] * 50, rtol=1e-4)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_three_classes(name, tmp_path):
    model = CLASSIFIERS[name](n_classes=3, model_dir=str(tmp_path), config=CONFIG)
    model.train(batches(THREE), steps=200)
    found = model.evaluate(batches(THREE, 1))
    assert set(found) == {"accuracy", "average_loss", "global_step", "loss"}
    assert found["accuracy"] > {"baseline": 0.4, "linear": 0.6}.get(name, 0.9)
    (first, *_) = model.predict(batches(None, 1))
    assert set(first) == {
        "all_class_ids",
        "all_classes",
        "class_ids",
        "classes",
        "logits",
        "probabilities",
    }
    assert first["classes"].tolist() == [str(first["class_ids"][0]).encode()]
    np.testing.assert_allclose(first["probabilities"].sum(), 1.0, rtol=1e-5)
    assert first["probabilities"].argmax() == first["class_ids"][0]


@pytest.mark.parametrize("name", REGRESSORS)
def test_numbers(name, tmp_path):
    model = REGRESSORS[name](model_dir=str(tmp_path), config=CONFIG)
    model.train(batches(NUMBER), steps=300)
    found = model.evaluate(batches(NUMBER, 1))
    assert set(found) == {"average_loss", "global_step", "label/mean", "loss", "prediction/mean"}
    if name == "baseline":
        assert found["prediction/mean"] == pytest.approx(NUMBER.mean(), rel=0.05)
    else:
        assert found["average_loss"] < 0.1


def test_one_step_of_a_linear_regressor_by_hand(tmp_path):
    rate = 0.001
    model = tf.estimator.LinearRegressor(
        COLUMNS, optimizer=tf.train.GradientDescentOptimizer(rate), model_dir=str(tmp_path)
    )
    model.train(batches(NUMBER, size=20), steps=1)
    x, y = X[:20], NUMBER[:20]
    weights = model.get_variable_value("linear/linear_model/x/weights")
    np.testing.assert_allclose(weights[:, 0], rate * 2 * x.T @ y, rtol=1e-4)
    bias = model.get_variable_value("linear/linear_model/bias_weights")
    np.testing.assert_allclose(bias, [rate * 2 * y.sum()], rtol=1e-4)


def test_weights_and_the_reduction_of_losses(tmp_path):
    weights = np.arange(200, dtype=np.float32)
    model = tf.estimator.LinearRegressor(
        COLUMNS,
        weight_column="w",
        loss_reduction=tf.losses.Reduction.MEAN,
        model_dir=str(tmp_path),
    )
    found = model.evaluate(batches(NUMBER, 1, 200, w=weights))
    expected = np.average(NUMBER**2, weights=weights)
    np.testing.assert_allclose([found["loss"], found["average_loss"]], [expected] * 2, rtol=1e-4)
    np.testing.assert_allclose(found["label/mean"], np.average(NUMBER, weights=weights), rtol=1e-4)


def test_labels_may_be_words(tmp_path):
    words = np.array(["no", "yes"])[TWO]
    model = CLASSIFIERS["deep"](
        label_vocabulary=["no", "yes"], model_dir=str(tmp_path), config=CONFIG
    )
    model.train(batches(words), steps=300)
    assert model.evaluate(batches(words, 1))["accuracy"] > 0.95
    found = [each["classes"][0] for each in model.predict(batches(None, 1))]
    assert np.mean(np.array(found) == words.astype("S3")) > 0.95


def test_labels_out_of_range_are_refused_when_they_run(tmp_path):
    model = CLASSIFIERS["linear"](n_classes=3, model_dir=str(tmp_path))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Labels must be <= n_classes - 1"):
        model.train(batches(THREE + 1), steps=10)
    with pytest.raises(ValueError, match="Mismatched label shape"):
        model.train(batches(np.stack([THREE, THREE], 1)), steps=1)
    with pytest.raises(ValueError, match="Labels dtype should be integer"):
        model.train(batches(np.array(["a"] * 200)), steps=1)


def test_names_of_variables(tmp_path):
    model = CLASSIFIERS["both"](model_dir=str(tmp_path), config=CONFIG)
    model.train(batches(TWO), steps=2)
    names = {name for name in model.get_variable_names() if "Adagrad" not in name}
    assert {name for name in names if "Ftrl" not in name} == {
        "dnn/hiddenlayer_0/bias",
        "dnn/hiddenlayer_0/kernel",
        "dnn/logits/bias",
        "dnn/logits/kernel",
        "global_step",
        "linear/linear_model/bias_weights",
        "linear/linear_model/x/weights",
    }
    assert model.get_variable_value("global_step") == 2


def test_dropout_and_batch_norm_are_for_training_alone(tmp_path):
    model = tf.estimator.DNNClassifier(
        [16], COLUMNS, dropout=0.5, batch_norm=True, model_dir=str(tmp_path), config=CONFIG
    )
    model.train(batches(TWO), steps=30)
    first, second = (
        [each["logits"][0] for each in model.predict(batches(None, 1))] for _ in range(2)
    )
    assert first == second
    assert "dnn/hiddenlayer_0/batchnorm_0/moving_mean" in model.get_variable_names()
    moved = model.get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_mean")
    assert np.any(moved != 0)


def test_an_exported_classifier_reads_examples(tmp_path):
    model = CLASSIFIERS["deep"](model_dir=str(tmp_path), config=CONFIG)
    model.train(batches(TWO), steps=10)
    spec = tf.feature_column.make_parse_example_spec(COLUMNS)
    receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    directory = model.export_saved_model(str(tmp_path / "export"), receive)
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=X[0].tolist()))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    with tf.Session(graph=tf.Graph()) as session:
        signatures = tf.saved_model.loader.load(session, ["serve"], directory).signature_def
        assert {key: each.method_name for key, each in signatures.items()} == {
            "serving_default": "tensorflow/serving/classify",
            "classification": "tensorflow/serving/classify",
            "predict": "tensorflow/serving/predict",
            "regression": "tensorflow/serving/regress",
        }
        signature = signatures["serving_default"]
        scores = session.run(
            signature.outputs["scores"].name,
            {signature.inputs["inputs"].name: [example.SerializeToString()]},
        )
    (first, *_) = model.predict(batches(None, 1))
    np.testing.assert_allclose(scores[0], first["probabilities"], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CLASSIFIERS["linear"](n_classes=1), "n_classes must be > 2"),
        (lambda: CLASSIFIERS["linear"](loss_reduction="none"), "Invalid loss_reduction"),
        (lambda: CLASSIFIERS["linear"](label_vocabulary="ab"), "should be a list or a tuple"),
        (
            lambda: CLASSIFIERS["deep"](n_classes=3, label_vocabulary=np.array(["a", "b", "c"])),
            "should be a list or a tuple",
        ),
        (lambda: REGRESSORS["linear"](label_dimension=0), "Invalid label_dimension"),
        (lambda: tf.estimator.DNNLinearCombinedClassifier(), "must be defined"),
    ],
)
def test_models_that_cannot_be(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_optimizers_by_name_function_or_object(tmp_path):
    for index, optimizer in enumerate(("SGD", lambda: tf.train.AdamOptimizer(0.1))):
        model = REGRESSORS["linear"](optimizer=optimizer, model_dir=str(tmp_path / str(index)))
        model.train(batches(NUMBER), steps=1)
    with pytest.raises(ValueError, match="Unsupported optimizer name: Best"):
        REGRESSORS["linear"](optimizer="Best", model_dir=str(tmp_path)).train(batches(NUMBER))


def tags(directory):
    paths = [path for path in directory.iterdir() if "tfevents" in path.name]
    events = (event for path in paths for event in tf.train.summary_iterator(str(path)))
    return {value.tag: value for event in events for value in event.summary.value}


HIDDEN = {
    f"dnn/dnn/{layer}/{what}"
    for layer in ("hiddenlayer_0", "logits")
    for what in ("fraction_of_zero_values", "activation")
}
LINEAR = {"linear/bias", "linear/fraction_of_zero_weights"}


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("linear", {}, LINEAR | {"average_loss"}),
        ("linear", {"loss_reduction": tf.losses.Reduction.MEAN}, LINEAR),
        ("linear", {"n_classes": 3}, LINEAR | {"average_loss"}),
        ("both", {}, LINEAR | HIDDEN | {"average_loss"}),
        ("baseline", {}, {"average_loss"}),
    ],
)
def test_what_models_tell_while_they_train(name, given, told, tmp_path):
    model = CLASSIFIERS[name](model_dir=str(tmp_path), **given)
    model.train(batches(TWO), steps=1)
    found = tags(tmp_path)
    assert set(found) == told | {"loss"}
    if name == "linear":
        assert found["linear/bias"].WhichOneof("value") == (
            "histo" if "n_classes" in given else "simple_value"
        )
        assert found["linear/fraction_of_zero_weights"].simple_value == 1.0


def test_fractions_of_zeros_are_of_all_columns_together(tmp_path):
    columns = [
        tf.feature_column.numeric_column("x", shape=[2]),
        tf.feature_column.numeric_column("o"),
    ]
    model = tf.estimator.LinearRegressor(
        columns, model_dir=str(tmp_path), config=tf.estimator.RunConfig(save_summary_steps=1)
    )
    model.train(batches(NUMBER, o=np.zeros(200, np.float32)), steps=2)
    fraction = tags(tmp_path)["linear/fraction_of_zero_weights"].simple_value
    assert fraction == pytest.approx(1 / 3)


MANY = [tf.feature_column.numeric_column(f"x{index}") for index in range(100)]


@pytest.mark.parametrize(
    ("make", "variable", "rate"),
    [
        (lambda **given: tf.estimator.LinearRegressor(MANY, optimizer="Adam", **given),
         "linear/linear_model/bias_weights", 0.2),
        (lambda **given: tf.estimator.LinearRegressor(MANY, optimizer=None, **given),
         "linear/linear_model/bias_weights", 0.1),
        (lambda **given: tf.estimator.DNNRegressor([2], MANY, optimizer="Adam", **given),
         "dnn/logits/bias", 0.05),
        (lambda **given: tf.estimator.BaselineRegressor(optimizer="Adam", **given),
         "baseline/bias", 0.3),
        (lambda **given: tf.estimator.DNNLinearCombinedRegressor(
            dnn_feature_columns=MANY, dnn_hidden_units=[2], dnn_optimizer="Adam", **given),
         "dnn/logits/bias", 0.001),
        (lambda **given: tf.estimator.DNNLinearCombinedRegressor(
            linear_feature_columns=MANY, linear_optimizer="Adam", **given),
         "linear/linear_model/bias_weights", 0.005),
    ],
    ids=["linear", "linear, none", "deep", "baseline", "both, deep", "both, linear"],
)  # fmt: skip
def test_rates_of_optimizers_by_name(make, variable, rate, tmp_path):
    """The first step of Adam is as long as its rate, and that of FTRL where gradients are large."""
    model = make(model_dir=str(tmp_path))
    given = {f"x{index}": X[:, 0] for index in range(100)}
    model.train(batches(NUMBER + 1e4, **given), steps=1)
    assert model.get_variable_value(variable) == pytest.approx(rate, rel=1e-2)


def test_variables_in_parts_and_their_slots_are_saved_whole(tmp_path):
    model = tf.estimator.LinearRegressor(
        COLUMNS, partitioner=tf.fixed_size_partitioner(2), model_dir=str(tmp_path)
    )
    model.train(batches(NUMBER), steps=2)
    weights = "linear/linear_model/x/weights"
    assert {weights, f"{weights}/Ftrl", f"{weights}/Ftrl_1"} <= set(model.get_variable_names())
    assert model.get_variable_value(weights).shape == (2, 1)
    assert model.train(batches(NUMBER), steps=1).get_variable_value("global_step") == 3
