"""Finds properties of an op's inputs and outputs by calling its shape inference."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ops.op import Inference, Op
from sparkflow_runtime.ops.signature import REQUIRED

Shape = tuple[int, ...]
_FEW: Sequence[Shape] = ((), (2,), (2, 2), (2, 2, 2), (2, 2, 2, 2))
_SOME: Sequence[Shape] = (*_FEW, (4,), (2, 4), (4, 4), (4, 2, 2, 4))
_MANY: Sequence[Shape] = (
    *_SOME,
    *((3,), (1, 3), (2, 1), (3, 3), (2, 3), (2, 3, 4), (5, 3, 3), (1, 2, 3, 4), (1, 2, 2, 4)),
    *((1, 2, 3, 4, 5), (1, 4, 4, 4, 4)),
)
_LARGEST_RANK = 4
_NAMES = {0: "Scalar", 1: "Vector", 2: "Matrix"}


class Shapes:
    """The results of one op for combinations of shapes."""

    def __init__(self, op: Op) -> None:
        self._op = op
        inputs = op.signature.inputs
        self._count = len(inputs)
        self._asked: list[tuple[Shape, ...]] = []
        if inputs and not any(arg.is_list or arg.is_ref for arg in inputs):
            shapes = {1: _MANY, 2: _MANY, 3: _SOME}.get(self._count, _FEW)
            self._asked = [*itertools.product(shapes, repeat=self._count)]
        answers = [(given, self._infer(given)) for given in self._asked]
        self._accepted = [(given, found) for given, found in answers if found is not None]

    @property
    def broadcasts(self) -> bool:
        """Whether the inputs broadcast as in numpy and the only output has that shape."""
        if self._count < 2 or not self._accepted:
            return False
        fitting = [given for given in self._asked if _broadcast(given) is not None]
        return [given for given, _ in self._accepted] == fitting and all(
            len(found) == 1 and found[0] == _broadcast(given) for given, found in self._accepted
        )

    @property
    def kept(self) -> int | None:
        """Returns the input whose shape the only output has; None if there is none."""
        if len(self._accepted) < 4:
            return None
        for index in range(self._count):
            if all(len(out) == 1 and out[0] == given[index] for given, out in self._accepted):
                return index
        return None

    @property
    def refuses(self) -> bool:
        """Whether some shapes are rejected."""
        return len(self._accepted) < len(self._asked)

    def of_input(self, index: int) -> str:
        """Returns the description of an input: a scalar, a matrix, a tensor of some rank."""
        found = {given[index] for given, _ in self._accepted}
        ranks = {len(each) for each in found}
        if self.broadcasts:
            return "Tensor [...]"
        if len(ranks) == 1:
            (rank,) = ranks
            return _NAMES.get(rank, f"Tensor of rank {rank}")
        if not ranks:
            return "Tensor"
        if min(ranks) == 2 and all(each[-1] == each[-2] for each in found):
            return "Tensor [..., n, n]"
        if min(ranks) > 0 and ranks >= {*range(min(ranks), _LARGEST_RANK + 1)}:
            return f"Tensor of rank {min(ranks)} or more"
        return "Tensor [...]" if ranks >= {*range(_LARGEST_RANK + 1)} else "Tensor"

    def _infer(self, given: Sequence[Shape]) -> list[Any] | None:
        attrs = self._attrs()
        kinds = [
            attrs[arg.type_attr] if arg.type_attr is not None else arg.dtype
            for arg in self._op.signature.inputs
        ]
        try:
            return [*self._op.infer(Inference(given, kinds, attrs))]
        except Exception:  # any error: the op does not accept these shapes
            return None

    def _attrs(self) -> dict[str, Any]:
        """Returns values for the attributes, including required ones."""
        made = {}
        for key, attr in self._op.signature.attrs.items():
            if attr.default is not REQUIRED:
                made[key] = attr.default
            elif attr.kind == "type":
                kinds = attr.allowed or {dtypes.float32}
                made[key] = dtypes.float32 if dtypes.float32 in kinds else min(kinds, key=str)
            elif attr.kind == "int":
                made[key] = attr.minimum or 1
            elif attr.kind == "bool":
                made[key] = False
        return made


def _broadcast(given: Sequence[Shape]) -> Shape | None:
    try:
        return np.broadcast_shapes(*given)
    except ValueError:
        return None
