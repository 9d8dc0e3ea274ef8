"""Unique names and name scopes of one graph, by TensorFlow's rules."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OP_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.\\/>-]*")


class _Open(threading.local):
    """The scope that is open in a thread."""

    scope = ""


class Names:
    """The names taken in a graph and the scope that is open, in each thread its own."""

    def __init__(self) -> None:
        self._open = _Open()
        # Keyed in lower case: TensorFlow takes names that differ only in case for the same.
        self._taken: dict[str, int] = {}

    @property
    def scope(self) -> str:
        """The open name scope without its final slash; "" at the root."""
        return self._open.scope

    def unique(self, name: str, mark_as_used: bool = True) -> str:
        """`name` inside the open scope, with `_1`, `_2`, ... where it is taken."""
        scope = self._open.scope
        return self.unique_path(f"{scope}/{name}" if scope else name, mark_as_used)

    def unique_path(self, name: str, mark_as_used: bool = True) -> str:
        """`name` as a full path, with `_1`, `_2`, ... where it is taken."""
        taken = self._taken
        key = name.lower()
        count = taken.get(key, 0)
        if mark_as_used:
            taken[key] = count + 1
        if not count:
            check_op_name(name)
            return name
        base = key
        while key in taken:
            key = f"{base}_{count}"
            count += 1
        if mark_as_used:
            taken[key] = 1
        return f"{name}_{count - 1}"

    def take(self, name: str) -> None:
        """Marks a full path as used."""
        self._taken.setdefault(name.lower(), 1)

    def taken(self) -> dict[str, int]:
        """What `restore` takes back to."""
        return dict(self._taken)

    def restore(self, taken: dict[str, int]) -> None:
        """Frees all names that were not taken when `taken` was read."""
        self._taken = dict(taken)

    @contextmanager
    def entered(self, name: str | None) -> Iterator[str]:
        """Opens a scope and gives its path with a final slash; "" for the root.

        Args:
            name: A new scope inside the open one, a path that ends in `/` to open exactly that
                scope again, or None or "" for the root.

        Raises:
            ValueError: `name` cannot be the name of a scope.
        """
        outer = self._open.scope
        if not name:
            inner = ""
        elif name.endswith("/"):
            inner = name[:-1]
        else:
            if not (_SCOPE_NAME if outer else _OP_NAME).fullmatch(name):
                pattern = (_SCOPE_NAME if outer else _OP_NAME).pattern
                raise ValueError(
                    f"'{name}' is not a valid {'' if outer else 'root '}scope name. "
                    f"It has to match the pattern {pattern}"
                )
            inner = self.unique(name)
        self._open.scope = inner
        try:
            yield f"{inner}/" if inner else ""
        finally:
            self._open.scope = outer


def is_node_name(name: str) -> bool:
    """Whether a node of a graph that is imported may have this name."""
    return bool(name and _SCOPE_NAME.fullmatch(name))


def check_op_name(name: str) -> None:
    """Passes when `name` can name a node.

    Raises:
        ValueError: It cannot.
    """
    if not _OP_NAME.fullmatch(name):
        raise ValueError(
            f"'{name}' is not a valid node name: it starts with a letter, a digit or '.' and goes "
            "on with those, '_', '-', '/', '\\\\' or '>'"
        )
