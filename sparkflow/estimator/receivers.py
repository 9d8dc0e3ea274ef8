"""`ServingInputReceiver`: what an exported model is asked with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sparkflow.graph.operators import Symbolic
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.files.parsing import parse_example
from sparkflow.ops.shape.constants import placeholder
from sparkflow_runtime.dtypes import string

FEATURE = "feature"
RECEIVER = "input"


class ServingInputReceiver(
    NamedTuple(
        "ServingInputReceiver",
        [
            ("features", Any),
            ("receiver_tensors", Any),
            ("receiver_tensors_alternatives", Any),
        ],
    )
):
    """The features of a model and the tensors that are fed.

    Args:
        features: Tensors by name; a single one is named `feature`.
        receiver_tensors: Tensors to feed by name; a single one is named `input`.
        receiver_tensors_alternatives: By name, other sets of tensors to feed.

    Raises:
        ValueError: Something is no tensor, a name is no string, or alternatives are no dictionary.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Any,
        receiver_tensors: Any,
        receiver_tensors_alternatives: Mapping[str, Any] | None = None,
    ) -> ServingInputReceiver:
        """Checks everything; see the class."""
        named = _named(features, FEATURE, "feature")
        fed = _named(receiver_tensors, RECEIVER, "receiver_tensor")
        for name, tensor in fed.items():
            if not isinstance(tensor, Symbolic):
                raise ValueError(f"receiver_tensor {name} must be a Tensor.")
        others = _alternatives(receiver_tensors_alternatives)
        return super().__new__(cls, named, fed, others)


class TensorServingInputReceiver(
    NamedTuple(
        "TensorServingInputReceiver",
        [
            ("features", Any),
            ("receiver_tensors", Any),
            ("receiver_tensors_alternatives", Any),
        ],
    )
):
    """As `ServingInputReceiver`, for a model whose features are one tensor without a name."""

    __slots__ = ()

    def __new__(
        cls,
        features: Any,
        receiver_tensors: Any,
        receiver_tensors_alternatives: Mapping[str, Any] | None = None,
    ) -> TensorServingInputReceiver:
        """Checks everything; see the class."""
        if not isinstance(features, Symbolic | SparseTensor):
            raise ValueError("feature must be a Tensor or SparseTensor.")
        given = ServingInputReceiver(features, receiver_tensors, receiver_tensors_alternatives)
        return super().__new__(cls, features, *given[1:])


def _named(tensors: Any, single: str, what: str) -> dict[str, Any]:
    if tensors is None:
        raise ValueError(f"{what}s must be defined.")
    named = tensors if isinstance(tensors, Mapping) else {single: tensors}
    for name, tensor in named.items():
        if not isinstance(name, str):
            raise ValueError(f"{what} keys must be strings: {name}.")
        if not isinstance(tensor, Symbolic | SparseTensor):
            raise ValueError(f"{what} {name} must be a Tensor or SparseTensor.")
    return dict(named)


def _alternatives(given: Any) -> Any:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ValueError(f"receiver_tensors_alternatives must be a dict: {given}.")
    return {name: _named(each, RECEIVER, "receiver_tensor") for name, each in given.items()}


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that receives serialised `Example`s, under the name `examples`.

    Args:
        feature_spec: As for `tf.parse_example`.
        default_batch_size: How many there are; any number when None.
    """

    def receive() -> ServingInputReceiver:
        examples = placeholder(string, [default_batch_size], name="input_example_tensor")
        features = parse_example(examples, feature_spec)
        return ServingInputReceiver(features, {"examples": examples})

    return receive


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that receives the features themselves.

    Args:
        features: Tensors by name, whose dtypes and shapes (but the first size) are taken.
        default_batch_size: The first size; any when None.
    """

    def receive() -> ServingInputReceiver:
        fed = {}
        for name, tensor in features.items():
            shape = tensor.shape.as_list()
            shape[0] = default_batch_size
            fed[name] = placeholder(tensor.dtype.base, shape, name=tensor.op.name)
        return ServingInputReceiver(fed, fed)

    return receive
