"""One task of a cluster that TF_CONFIG describes: `train_and_evaluate_task.py DIRECTORY`."""

import sys

import numpy as np

import sparkflow as tf

X = np.float32([[0], [1], [2], [3]])
Y = 2 * X[:, 0] + 1


def batches(epochs, shuffle):
    return tf.estimator.inputs.numpy_input_fn(
        {"x": X}, Y, batch_size=4, num_epochs=epochs, shuffle=shuffle
    )


def main(directory):
    config = tf.estimator.RunConfig(directory, save_checkpoints_steps=50, tf_random_seed=1)
    estimator = tf.estimator.LinearRegressor(
        [tf.feature_column.numeric_column("x")],
        optimizer=tf.train.GradientDescentOptimizer(0.01),
        config=config,
    )
    result = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(batches(None, True), max_steps=200),
        tf.estimator.EvalSpec(batches(1, False), start_delay_secs=0, throttle_secs=0),
    )
    if result is not None:
        print(f"loss={result[0]['average_loss']:.6f} step={result[0]['global_step']}")
    print(f"{config.task_type} is done")


if __name__ == "__main__":
    main(sys.argv[1])
