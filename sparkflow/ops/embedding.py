"""Looking up rows of tables."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops import arrays
from sparkflow.ops.clip import clip_by_norm
from sparkflow.ops.control import identity


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Tensor:
    """The rows of a table at `ids`: `ids.shape + params.shape[1:]`. Its gradient is sparse.

    Args:
        params: A variable or tensor with a row per id, or a list of one.
        ids: Integers of any shape.
        partition_strategy: Of no effect for a table in one piece.
        name: Name of the scope.
        validate_indices: Accepted for TensorFlow's sake.
        max_norm: Scale rows down to this euclidean norm.

    Raises:
        ValueError: `params` is empty, or a table in several pieces.
    """
    tables = list(params) if isinstance(params, list | tuple) else [params]
    if len(tables) != 1:
        raise ValueError(
            f"tf.nn.embedding_lookup takes a table in one piece, got {len(tables)} pieces"
        )
    table = tables[0]
    graph = graph_of((table, ids))
    with graph.as_default(), graph.name_scope(name or "embedding_lookup") as scope:
        indices = graph.convert(ids, None, "ids")
        # Beside the table: only the rows travel.
        with graph.colocate_with(table):
            rows = arrays.gather(table, indices, name=scope)
        if max_norm is not None:
            axes = list(range(len(indices.shape), len(rows.shape)))
            rows = clip_by_norm(rows, max_norm, axes)
        result: Tensor = identity(rows)
        return result
