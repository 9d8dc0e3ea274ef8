"""Named lists that travel with a graph, and the names TensorFlow gives them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import Any, Final

from sparkflow._api import export


@export("GraphKeys")
class GraphKeys:
    """Names of the standard collections."""

    GLOBAL_VARIABLES: Final = "variables"
    VARIABLES: Final = "variables"
    LOCAL_VARIABLES: Final = "local_variables"
    METRIC_VARIABLES: Final = "metric_variables"
    MODEL_VARIABLES: Final = "model_variables"
    TRAINABLE_VARIABLES: Final = "trainable_variables"
    TRAINABLE_RESOURCE_VARIABLES: Final = "trainable_resource_variables"
    MOVING_AVERAGE_VARIABLES: Final = "moving_average_variables"
    SUMMARIES: Final = "summaries"
    QUEUE_RUNNERS: Final = "queue_runners"
    TABLE_INITIALIZERS: Final = "table_initializer"
    ASSET_FILEPATHS: Final = "asset_filepaths"
    REGULARIZATION_LOSSES: Final = "regularization_losses"
    CONCATENATED_VARIABLES: Final = "concatenated_variables"
    SAVERS: Final = "savers"
    WEIGHTS: Final = "weights"
    BIASES: Final = "biases"
    ACTIVATIONS: Final = "activations"
    UPDATE_OPS: Final = "update_ops"
    LOSSES: Final = "losses"
    SAVEABLE_OBJECTS: Final = "saveable_objects"
    RESOURCES: Final = "resources"
    LOCAL_RESOURCES: Final = "local_resources"
    INIT_OP: Final = "init_op"
    LOCAL_INIT_OP: Final = "local_init_op"
    READY_OP: Final = "ready_op"
    READY_FOR_LOCAL_INIT_OP: Final = "ready_for_local_init_op"
    SUMMARY_OP: Final = "summary_op"
    GLOBAL_STEP: Final = "global_step"
    EVAL_STEP: Final = "eval_step"
    TRAIN_OP: Final = "train_op"
    COND_CONTEXT: Final = "cond_context"
    WHILE_CONTEXT: Final = "while_context"


class Collections:
    """The collections of one graph."""

    def __init__(self) -> None:
        self._collections: dict[Hashable, list[Any]] = {}

    def add_to_collection(self, name: Hashable, value: Any) -> None:
        """Appends `value` to the collection `name`; it may be in several times."""
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Hashable | Iterable[Hashable], value: Any) -> None:
        """Appends `value` to each collection named, once even where a name repeats."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            names = (names,)
        for name in dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection(self, name: Hashable, scope: str | None = None) -> list[Any]:
        """A copy of the collection, empty when there is none.

        Args:
            name: The collection.
            scope: A regular expression; only items whose `name` it matches at the start, and no
                item without a name.
        """
        items = self._collections.get(name, [])
        if scope is None:
            return list(items)
        pattern = re.compile(scope)
        return [item for item in items if hasattr(item, "name") and pattern.match(item.name)]

    def get_collection_ref(self, name: Hashable) -> list[Any]:
        """The collection itself; changes to the list change the collection."""
        return self._collections.setdefault(name, [])

    def get_all_collection_keys(self) -> list[Hashable]:
        """The names of all collections."""
        return [name for name in self._collections if isinstance(name, str)]

    def clear_collection(self, name: Hashable) -> None:
        """Forgets the collection."""
        self._collections.pop(name, None)
