"""`tf.contrib.predictor`: predictions of a saved model or an estimator, one call for each."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.graph.nodes.reach import Allowed
from sparkflow_runtime.protos.meta_graph_pb2 import SignatureDef

__all__ = ["Predictor", "from_estimator", "from_saved_model"]


class Predictor:
    """Runs a graph that it has loaded. It is called with inputs by name, from any thread.

    Its session ends with `session.close()`, or with a `with` block.

    Args:
        session: The session.
        feed_tensors: The tensors to feed, by the names of inputs.
        fetch_tensors: The tensors to fetch, by the names of outputs.

    Attributes:
        session: See the arguments.
        feed_tensors: See the arguments.
        fetch_tensors: See the arguments.
    """

    def __init__(
        self, session: Any, feed_tensors: Mapping[str, Any], fetch_tensors: Mapping[str, Any]
    ) -> None:
        self.session = session
        self.feed_tensors = dict(feed_tensors)
        self.fetch_tensors = dict(fetch_tensors)

    @property
    def graph(self) -> Any:
        """The graph of the session."""
        return self.session.graph

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs as arrays, by name.

        Args:
            input_dict: The values of inputs by name; others keep what the graph has for them.

        Raises:
            ValueError: There is no input of that name.
        """
        unexpected = set(input_dict) - set(self.feed_tensors)
        if unexpected:
            raise ValueError(
                f"Got unexpected keys in input_dict: {unexpected}\n"
                f"expected: {set(self.feed_tensors)}"
            )
        feeds = {self.feed_tensors[name]: value for name, value in input_dict.items()}
        found: dict[str, Any] = self.session.run(self.fetch_tensors, feeds)
        return found

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} with feed tensors {self.feed_tensors} and fetch_tensors "
            f"{self.fetch_tensors}"
        )

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *error: object) -> None:
        self.session.close()


def from_saved_model(
    export_dir: str | os.PathLike[str],
    signature_def_key: str | None = None,
    signature_def: SignatureDef | None = None,
    input_names: Mapping[str, str] | None = None,
    output_names: Mapping[str, str] | None = None,
    tags: str | Sequence[str] | None = None,
    graph: Any = None,
    config: Any = None,
    allowed_ops: Allowed = None,
) -> Predictor:
    """Returns a predictor of a saved model.

    Its inputs and outputs are those of a signature of the model, of `signature_def`, or of
    `input_names` and `output_names`.

    Args:
        export_dir: The directory of the model.
        signature_def_key: The name of a signature; "serving_default" when None.
        signature_def: A signature that need not be in the model.
        input_names: The names of tensors to feed, by the names of inputs.
        output_names: The names of tensors to fetch, by the names of outputs.
        tags: The tags of the graph; "serve" when None. Several in one text have commas between.
        graph: The graph to load it into; a new one when None.
        config: The configuration of the session.
        allowed_ops: See `tf.saved_model.load`.

    Raises:
        OSError: There is no saved model.
        RuntimeError: It has no graph with these tags.
        ValueError: There is no signature of this name, or more than one of the ways above is used.
        PermissionDeniedError: The graph has ops that would have to be allowed.
    """
    named = input_names is not None or output_names is not None
    if sum([signature_def_key is not None, signature_def is not None, named]) > 1:
        raise ValueError(
            "At most one of signature_def_key, signature_def, and input_names with output_names "
            f"can be given. Got {signature_def_key!r}, a signature_def: "
            f"{signature_def is not None}, {input_names!r}, {output_names!r}"
        )
    if named and (input_names is None or output_names is None):
        raise ValueError(
            "input_names and output_names must both be given. Got "
            f"{input_names!r} and {output_names!r}"
        )
    wanted = tags.split(",") if isinstance(tags, str) else list(tags or ["serve"])
    graph = graph or tf.Graph()
    session = tf.Session(graph=graph, config=config)
    try:
        loaded = tf.saved_model.loader.load(session, wanted, export_dir, allowed_ops=allowed_ops)
        if input_names is not None and output_names is not None:
            feeds, fetches = (
                {name: graph.get_tensor_by_name(each) for name, each in names.items()}
                for names in (input_names, output_names)
            )
        else:
            signature = signature_def or _signature(loaded, signature_def_key)
            feeds, fetches = (
                {
                    name: tf.saved_model.utils.get_tensor_from_tensor_info(each, graph)
                    for name, each in tensors.items()
                }
                for tensors in (signature.inputs, signature.outputs)
            )
    except BaseException:
        session.close()
        raise
    return Predictor(session, feeds, fetches)


def _signature(loaded: Any, key: str | None) -> SignatureDef:
    key = key or tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if key not in loaded.signature_def:
        raise ValueError(
            f"Got signature_def_key {key!r}. Available signatures are "
            f"{sorted(loaded.signature_def)}"
        )
    found: SignatureDef = loaded.signature_def[key]
    return found


def from_estimator(
    estimator: Any,
    serving_input_receiver_fn: Callable[[], Any],
    output_key: str | None = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """Returns a predictor of an estimator's latest checkpoint.

    Args:
        estimator: A `tf.estimator.Estimator`.
        serving_input_receiver_fn: Returns a `ServingInputReceiver`.
        output_key: The name of one of the model's `export_outputs`; the default one when None.
        graph: The graph to load it into; a new one when None.
        config: The configuration of the session.

    Raises:
        TypeError: It is no estimator.
        ValueError: The estimator has no checkpoint, or the model no such output.
    """
    if not isinstance(estimator, tf.estimator.Estimator):
        raise TypeError(f"Expected a tf.estimator.Estimator, got {type(estimator).__name__}")
    folder = tempfile.mkdtemp()
    try:
        saved = estimator.export_saved_model(folder, serving_input_receiver_fn)
        # Of the program's own model function, so that all its ops are trusted.
        found = from_saved_model(
            os.fsdecode(saved), output_key, graph=graph, config=config, allowed_ops="all"
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    # Until then its ops may read assets.
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found
