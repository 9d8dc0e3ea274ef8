"""What every function of `tf.contrib.layers` does with its variables and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.variables import model_variable, parts_of

Getter = Callable[..., Any]


def variable_getter(rename: Mapping[str, str] | None = None) -> Getter:
    """A custom getter that makes model variables, with other last names than the layer's.

    Args:
        rename: The names by those that the layer uses.
    """

    def getter(
        get: Getter,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool = True,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        use_resource: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        path, _, last = name.rpartition("/")
        if rename and last in rename:
            name = f"{path}/{rename[last]}" if path else rename[last]
        return model_variable(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            collections=collections,
            trainable=trainable,
            caching_device=caching_device,
            partitioner=partitioner,
            custom_getter=get,
            use_resource=use_resource,
        )

    return getter


def collections_of(collections: Any, name: str) -> list[str]:
    """The collections for the variable `name`: a list is for all, a dictionary is by name."""
    if isinstance(collections, Mapping):
        return list(collections.get(name) or [])
    return list(collections or [])


def list_variable(variable: Any, collections: Any, name: str) -> None:
    """Adds a variable to the collections that were asked for."""
    for collection in collections_of(collections, name):
        for part in parts_of(variable):
            tf.add_to_collection(collection, part)


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Adds a result to collections, under a name.

    Args:
        collections: The name of a collection, or a list of them.
        alias: What `convert_collection_to_dict` is to call the result.
        outputs: The result, which is returned.
    """
    if collections:
        append_tensor_alias(outputs, alias)
        chosen = [collections] if isinstance(collections, str) else collections
        for collection in chosen:
            tf.add_to_collection(collection, outputs)
    return outputs


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """The tensor, with one more name."""
    alias = alias.removesuffix("/")
    _aliases(tensor.graph).setdefault(tensor, []).append(alias)
    return tensor


def _aliases(graph: Any) -> dict[Any, list[str]]:
    """The names given to tensors of a graph."""
    kept = graph.get_collection_ref(("sparkflow", "aliases of tensors"))
    if not kept:
        kept.append({})
    found: dict[Any, list[str]] = kept[0]
    return found


def gather_tensors_aliases(tensors: Any) -> list[str]:
    """The aliases of tensors, or the names of their operations if they have none."""
    aliases: list[str] = []
    for tensor in tensors:
        aliases += _aliases(tensor.graph).get(tensor) or [tensor.op.name]
    return aliases


def get_tensor_aliases(tensor: Any) -> list[str]:
    """The aliases of a tensor, or the name of its operation if it has none."""
    return gather_tensors_aliases([tensor])


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Any]:
    """The tensors of a collection by the names that were given to them.

    Args:
        collection: The name of the collection.
        clear_collection: Empty it.
    """
    found = {
        alias: tensor
        for tensor in tf.get_collection(collection)
        for alias in get_tensor_aliases(tensor)
    }
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return found


def finished(
    outputs: Any,
    normalizer_fn: Getter | None,
    normalizer_params: Mapping[str, Any] | None,
    activation_fn: Getter | None,
    outputs_collections: Any,
    scope_name: str,
) -> Any:
    """A layer's result, normalised, activated and listed."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect_named_outputs(outputs_collections, scope_name, outputs)
