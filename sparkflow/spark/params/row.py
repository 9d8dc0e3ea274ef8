"""What is said of a parameter, once: a row of a table. Knows no pyspark.

Accessors, the fields of `FitConfig` and the documentation are written from the rows by
`scripts/generate_params.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""The default of a parameter without one."""


@dataclass(frozen=True, slots=True)
class Row:
    """A parameter.

    Attributes:
        name: In camelCase, as pyspark.ml has it; `snake` is its second spelling.
        default: Its value where none is set; `UNSET` for none.
        convert: Returns a given value as it is kept, or raises what is wrong with it.
        type: The annotation of its value.
        doc: What it says, for `explainParams` and the documentation.
        get: The first line of its getter's docstring.
        takes: The annotation of what its setter takes, where that is more than `type`.
        see: A link to a page that says more.
        decides: Whether it decides what is learnt: a checkpoint of another value is then of another
            training.
        needs: The parameter without which it has no effect; "" for none.
        needed: What the error says of one that needs this and was set without it; "" for as usual.
        of_rows: Whether it decides which rows are trained on or what is known of them: trainings
            that agree on all such parameters may share their rows.
    """

    name: str
    default: Any
    convert: Callable[[Any], Any]
    type: str
    doc: str
    get: str = ""
    takes: str = ""
    see: str = ""
    decides: bool = True
    needs: str = ""
    needed: str = ""
    of_rows: bool = False

    @property
    def snake(self) -> str:
        """The second spelling."""
        return snake_case(self.name)

    @property
    def title(self) -> str:
        """The name as accessors have it after `get` and `set`."""
        return self.name[0].upper() + self.name[1:]


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that one class brings.

    Attributes:
        name: The class.
        doc: Its docstring.
        rows: The parameters.
        bases: What the class is derived from.
    """

    name: str
    doc: str
    rows: tuple[Row, ...]
    bases: str = "ParamAliases"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The default values by name."""
        return {row.name: row.default for row in self.rows if row.default is not UNSET}


def camel_case(name: str) -> str:
    """`features_col` as `featuresCol`; a name without underscores is returned as it is."""
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


def snake_case(name: str) -> str:
    """`featuresCol` as `features_col`."""
    return re.sub(r"[A-Z]", lambda match: f"_{match.group(0).lower()}", name)
