"""A custom model_fn and canned estimators, fed by datasets and numpy_input_fn."""

import tempfile

import numpy as np

import sparkflow as tf

tf.logging.set_verbosity(tf.logging.ERROR)
rng = np.random.RandomState(12)
features = rng.randn(200, 4).astype(np.float32)
labels = (features[:, 0] + features[:, 1] > 0).astype(np.int32)
COLUMNS = ["a", "b", "c", "d"]


def train_input_fn(batch_size=20):
    table = {name: features[:, i] for i, name in enumerate(COLUMNS)}
    dataset = tf.data.Dataset.from_tensor_slices((table, labels))
    return dataset.shuffle(200).repeat().batch(batch_size)


def eval_input_fn():
    table = {name: features[:, i] for i, name in enumerate(COLUMNS)}
    return tf.data.Dataset.from_tensor_slices((table, labels)).batch(50)


def my_model(features, labels, mode, params):
    net = tf.feature_column.input_layer(features, params["feature_columns"])
    for units in params["hidden_units"]:
        net = tf.layers.dense(net, units=units, activation=tf.nn.relu)
    logits = tf.layers.dense(net, params["n_classes"], activation=None)
    predicted_classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {
            "class_ids": predicted_classes[:, tf.newaxis],
            "probabilities": tf.nn.softmax(logits),
            "logits": logits,
        }
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=predicted_classes, name="acc_op")
    tf.summary.scalar("accuracy", accuracy[1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    optimizer = tf.train.AdagradOptimizer(learning_rate=0.1)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


columns = [tf.feature_column.numeric_column(key=key) for key in COLUMNS]
classifier = tf.estimator.Estimator(
    model_fn=my_model,
    model_dir=tempfile.mkdtemp(),
    params={"feature_columns": columns, "hidden_units": [8, 8], "n_classes": 2},
)
classifier.train(input_fn=lambda: train_input_fn(), steps=100)
result = classifier.evaluate(input_fn=eval_input_fn)
print(sorted(result), result["accuracy"] > 0.9, result["global_step"])
predictions = list(classifier.predict(input_fn=eval_input_fn))
print(len(predictions), predictions[0]["probabilities"].shape, sorted(predictions[0]))
print(classifier.get_variable_names()[:3])

input_fn = tf.estimator.inputs.numpy_input_fn(
    x={"x": features}, y=labels, batch_size=50, num_epochs=None, shuffle=True
)
dnn = tf.estimator.DNNClassifier(
    feature_columns=[tf.feature_column.numeric_column("x", shape=[4])],
    hidden_units=[10, 10],
    n_classes=2,
    model_dir=tempfile.mkdtemp(),
    optimizer=tf.train.AdamOptimizer(0.02),
)
dnn.train(input_fn=input_fn, steps=100)
test = tf.estimator.inputs.numpy_input_fn(x={"x": features}, y=labels, num_epochs=1, shuffle=False)
print(sorted(dnn.evaluate(input_fn=test)), dnn.evaluate(input_fn=test)["accuracy"] > 0.9)
first = next(dnn.predict(input_fn=test))
print(sorted(first), first["classes"] == [str(labels[0]).encode()])

age = tf.feature_column.numeric_column("age")
buckets = tf.feature_column.bucketized_column(age, boundaries=[20, 40, 60])
city = tf.feature_column.categorical_column_with_vocabulary_list("city", ["rome", "oslo", "lima"])
hashed = tf.feature_column.categorical_column_with_hash_bucket("word", 10)
crossed = tf.feature_column.crossed_column([buckets, "city"], 50)
people = 120
table = {
    "age": rng.randint(10, 80, people).astype(np.float32),
    "city": np.array(["rome", "oslo", "lima"])[rng.randint(0, 3, people)],
    "word": np.array(["x", "y"])[rng.randint(0, 2, people)],
}
income = ((table["age"] > 40) & (table["city"] != "oslo")).astype(np.int32)
make = tf.estimator.inputs.numpy_input_fn(table, income, 40, num_epochs=None, shuffle=True)
once = tf.estimator.inputs.numpy_input_fn(table, income, num_epochs=1, shuffle=False)
linear = tf.estimator.LinearClassifier([age, buckets, city, hashed, crossed])
linear.train(make, steps=100)
print("linear", linear.evaluate(once)["accuracy"] > 0.85)
deep = tf.estimator.DNNLinearCombinedClassifier(
    linear_feature_columns=[crossed],
    dnn_feature_columns=[
        tf.feature_column.indicator_column(city),
        tf.feature_column.embedding_column(hashed, dimension=4),
        buckets,
    ],
    dnn_hidden_units=[16],
)
deep.train(make, max_steps=100)
print("wide and deep", deep.evaluate(once)["accuracy"] > 0.85)
