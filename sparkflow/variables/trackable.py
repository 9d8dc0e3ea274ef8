"""`Trackable`: what `tf.train.Checkpoint` saves by how its parts are called."""

from __future__ import annotations

from typing import Any


class Trackable:
    """An object that is saved with its attributes.

    What is saved of them: variables, other such objects, lists and dictionaries of those.
    """

    __slots__ = ()

    _restoring: Any = None
    """Called to give what was made since a `restore` its value; None where there was none."""

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if self._restoring is not None:
            self._restoring()

    def _trackable_children(self) -> dict[str, Any]:
        """Its parts by name; what cannot be saved among them is passed over."""
        return dict(vars(self))
