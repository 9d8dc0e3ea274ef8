"""What is said of a name that a module does not have: what to use instead, or what was meant.

Imported only when somebody asks for such a name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

SENTENCES: Final[Mapping[str, str]] = {
    "keras": "tf.keras is no part of the graph interface that sparkflow offers: build layers with "
    "tf.layers (tf.layers.dense, tf.layers.conv2d, ...), optimizers with tf.train "
    "(tf.train.AdamOptimizer, ...), losses with tf.losses and metrics with tf.metrics; "
    "sparkflow.spark.SparkDNNClassifier and SparkDNNRegressor need no graph at all",
    "optimizers": "optimizers are in tf.train: tf.train.AdamOptimizer, ...",
    "lite": "TensorFlow Lite is not offered; model.toONNX(path) and tf.saved_model write files for "
    "other runtimes",
    "tpu": "there is no TPU back end; kernels run on CPUs and CUDA GPUs (docs/gpu.md)",
    "distribute": "SparkTrainer(syncMode=...) distributes training; tf.train.replica_device_setter "
    "and tf.train.SyncReplicasOptimizer do in programs of one's own",
    "hub": "TensorFlow Hub is a package of its own and loads TensorFlow; tf.saved_model.load reads "
    "models that are on disk",
}
"""By name, for those that are asked for out of habit."""


def describe(module: str, name: str, known: Iterable[str]) -> str:
    """The text of the AttributeError.

    Args:
        module: The module's name.
        name: What was asked for.
        known: What the module has.
    """
    shown = "tf" + module.removeprefix("sparkflow")
    text = f"module {module!r} has no attribute {name!r}"
    if module == "sparkflow" and name in SENTENCES:
        return f"{text}: {SENTENCES[name]}"
    public = {each for each in known if not each.startswith("_")}
    close = closest(name, public)
    if close:
        text += f". Did you mean {' or '.join(f'{shown}.{each}' for each in close)}?"
    return text


def closest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known names that this one may be a misspelling of, the nearest first."""
    plain: dict[str, list[str]] = {}
    for each in sorted(known):
        plain.setdefault(each.lower().replace("_", ""), []).append(each)
    wanted = name.lower().replace("_", "")
    if wanted in plain:
        return plain[wanted][:3]
    longer = [key for key in plain if len(wanted) > 3 and key.startswith(wanted)]
    near = longer or difflib.get_close_matches(wanted, list(plain), n=3, cutoff=0.75)
    return [each for key in near for each in plain[key]][:3]
