"""Saves an embedding variable as a whole, which any number of shards can restore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.embedding.shard import Shard
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import group
from sparkflow.ops.shape import arrays
from sparkflow.ops.state import state
from sparkflow.train.checkpoints.saveable import SaveableObject, SaveSpec
from sparkflow.variables.variable import Variable

_IDS = ("keys", "counts", "ages")


class EmbeddingSaveable(SaveableObject):
    """Saves the ids, counters, rows and slots of all shards, on the first shard's task.

    Args:
        name: The name of the embedding variable.
        shards: Its shards.
    """

    def __init__(self, name: str, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._specs: list[SaveSpec] | None = None
        self._slots: list[str] = []
        self.op = shards[0].values.op
        self.name = name

    @property
    def specs(self) -> Sequence[SaveSpec]:  # type: ignore[override]  # there is more once slots are
        """The tensors to save; created on first use, when the optimizer's slots exist."""
        slots = self._slot_names()
        if self._specs is None or slots != self._slots:
            self._slots = slots
            self._specs = self._made()
        return self._specs

    @property
    def device(self) -> str:
        """The device of the first shard."""
        return self._shards[0].values.device

    def restore(
        self, restored_tensors: Sequence[Tensor], restored_shapes: Sequence[Any] | None
    ) -> Any:
        """Restores in each shard the rows that belong to it."""
        ids, initial, saved = restored_tensors[:3], restored_tensors[3], restored_tensors[4:]
        num_rows = arrays.shape(saved[0], out_type=ids[0].dtype.base)[0] - 1
        done: list[Any] = []
        for number, shard in enumerate(self._shards):
            variables = self._variables(shard)
            done += shard.restore(ids, num_rows, variables, saved, number, len(self._shards))
            done.append(state.assign(shard.initial, initial, validate_shape=False))
        return group(*done)

    def _slot_names(self) -> list[str]:
        """The names of slots relative to the values of a shard, the same in all."""
        first = self._shards[0]
        return sorted(each.op.name.removeprefix(_below(first)) for each in first.slots())

    def _variables(self, shard: Shard) -> list[Variable]:
        slots = {each.op.name.removeprefix(_below(shard)): each for each in shard.slots()}
        return [shard.values, *(slots[name] for name in self._slots)]

    def _made(self) -> list[SaveSpec]:
        first = self._shards[0].values
        graph = first.graph
        with graph.as_default(), graph.init_scope(), graph.name_scope(f"{self.name}/save/"):
            exported = [shard.export(self._variables(shard)) for shard in self._shards]
            with graph.colocate_with(first, ignore_existing=True):
                parts = _Parts(exported)
                ids = {name: parts.ids(place) for place, name in enumerate(_IDS)}
                rows = [parts.rows(place) for place in range(1 + len(self._slots))]
                initial = self._shards[0].initial.value()
        named = {**ids, "initial": initial, "values": rows[0]}
        named.update(zip((f"slots/{name}" for name in self._slots), rows[1:], strict=True))
        return [SaveSpec(tensor, "", f"{self.name}/{key}") for key, tensor in named.items()]


class _Parts:
    """Concatenates the exports of all shards: the ids with rows come first."""

    def __init__(self, exported: Sequence[tuple[list[Tensor], list[Tensor]]]) -> None:
        self._exported = exported
        self._counts = [arrays.shape(held[0])[0] - 1 for _, held in exported]

    def ids(self, place: int) -> Tensor:
        """Keys, counts or ages."""
        first = self._each(lambda i: self._exported[i][0][place][: self._counts[i]])
        rest = self._each(lambda i: self._exported[i][0][place][self._counts[i] :])
        return arrays.concat([*first, *rest], 0)

    def rows(self, place: int) -> Tensor:
        """The initial row of a variable, then its rows."""
        whole = [held[place] for _, held in self._exported]
        return arrays.concat([whole[0][:1], *(each[1:] for each in whole)], 0)

    def _each(self, part: Callable[[int], Tensor]) -> list[Tensor]:
        return [part(i) for i in range(len(self._exported))]


def _below(shard: Shard) -> str:
    return f"{shard.values.op.name}/"
