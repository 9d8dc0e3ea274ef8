"""Params that may be written in snake_case as well (`features_col` for `featuresCol`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pyspark.ml.param import Param, Params

Self = TypeVar("Self", bound="ParamAliases")


def camel_case(name: str) -> str:
    """`features_col` as `featuresCol`; a name without underscores is returned as it is."""
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


class ParamAliases(Params):
    """Params whose names may be written in snake_case as well."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    """The default values of the Params of this class; those of its bases are theirs to say."""

    def __init__(self) -> None:
        super().__init__()
        for base in reversed(type(self).__mro__):
            self._setDefault(**base.__dict__.get("DEFAULTS", {}))

    def __getattr__(self, name: str) -> Any:
        # Called only for what is not found otherwise.
        other = camel_case(name)
        if (
            other != name
            and not name.startswith("_")
            and isinstance(getattr(type(self), other, None), Param)
        ):
            return getattr(self, other)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def setParams(self: Self, **params: Any) -> Self:
        """Sets the parameters that are given, in either spelling.

        Raises:
            TypeError: There is no such parameter, it is given in both spellings, or its value has
                a wrong type.
            ValueError: A value is not allowed.
        """
        found: dict[str, Any] = {}
        for given, value in params.items():
            name = camel_case(given)
            if not self.hasParam(name):
                known = ", ".join(sorted(param.name for param in self.params))
                raise TypeError(f"{type(self).__name__} has no parameter {given!r}; it has {known}")
            if name in found:
                raise TypeError(f"the parameter {name!r} is given twice")
            found[name] = value
        self._set(**found)
        return self

    def _set(self: Self, **params: Any) -> Self:
        # pyspark's own leaves out None and hides the parameter's name in a ValueError.
        for name, value in params.items():
            param = self.getParam(name)
            self._paramMap[param] = param.typeConverter(value)
        return self
