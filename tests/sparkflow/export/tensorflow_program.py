"""Runs a saved model in TensorFlow, which loads it like TensorFlow Serving.

    PYTHON_WITH_TENSORFLOW tensorflow_program.py VERSION_FOLDER FEEDS.json

Prints the outputs of `serving_default`, and the values of the variables.
"""

import json
import sys
from typing import Any


def main(folder: str, feeds: str) -> None:
    """Loads and calls it."""
    import tensorflow as tf  # type: ignore[import-not-found]  # another environment's

    model: Any = tf.saved_model.load(folder, tags=["serve"])
    signature = model.signatures["serving_default"]
    kinds = {"<U": tf.string, "int64": tf.int64, "float32": tf.float32}
    with open(feeds) as file:
        given = json.load(file)
    arguments = {
        name: tf.reshape(tf.constant(each["values"], kinds[each["dtype"]]), each["shape"])
        for name, each in given.items()
    }
    found = {name: value.numpy().tolist() for name, value in signature(**arguments).items()}
    variables = {
        each.name.removesuffix(":0"): each.numpy().ravel().tolist() for each in model.variables
    }
    print(json.dumps({"outputs": found, "variables": variables}, default=bytes.decode))


if __name__ == "__main__":
    main(*sys.argv[1:])
