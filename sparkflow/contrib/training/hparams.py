"""`HParams`: hyperparameters by name, of known types."""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*="
    r"\s*((?P<list>\[[^\]]*\])|(?P<value>[^,\[]*))\s*($|,\s*)"
)


def _cast(name: str, kind: type, value: Any) -> Any:
    """A value as the type of a hyperparameter.

    Raises:
        ValueError: It cannot be one.
    """
    message = f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}"
    if issubclass(kind, type(None)):
        return value
    if isinstance(value, bool) != issubclass(kind, bool) and issubclass(kind, int | float | bool):
        raise ValueError(message)
    if issubclass(kind, str | bytes) and not isinstance(value, str | bytes):
        raise ValueError(message)
    if issubclass(kind, numbers.Integral) and not isinstance(value, numbers.Integral):
        raise ValueError(message)
    if issubclass(kind, numbers.Number) and not isinstance(value, numbers.Number):
        raise ValueError(message)
    return kind(value)  # type: ignore[call-arg]


def _parsed(name: str, kind: type, text: str) -> Any:
    """A value from text.

    Raises:
        ValueError: It is none of that type.
    """
    try:
        if issubclass(kind, bool):
            if text in ("true", "True", "1"):
                return True
            if text in ("false", "False", "0"):
                return False
            raise ValueError(text)
        if issubclass(kind, type(None)):
            return text
        return kind(text)  # type: ignore[call-arg]
    except ValueError as error:
        raise ValueError(
            f"Could not parse hparam '{name}' of type '{kind.__name__}' from text {text!r}"
        ) from error


def parse_values(
    values: str, type_map: Mapping[str, type], ignore_unknown: bool = False
) -> dict[str, Any]:
    """Hyperparameters from text such as `rate=0.1,layers=[2,3],sizes[1]=5`.

    Args:
        values: The text.
        type_map: The types by name.
        ignore_unknown: Leave out names without a type.

    Returns:
        Values by name; dictionaries by index where single elements were given.

    Raises:
        ValueError: Text that is none, an unknown name, or one given twice.
    """
    found: dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _ASSIGNMENT.match(values, position)
        if match is None:
            raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
        position = match.end()
        name, index = match["name"], match["index"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"Unknown hyperparameter type for {name}")
        kind = type_map[name]
        if match["list"] is not None:
            if index is not None:
                raise ValueError(f"Can't assign a list to one element: {name}[{index}]")
            parts = [each for each in re.split(r"[ ,]+", match["list"][1:-1].strip()) if each]
            value: Any = [_parsed(name, kind, each) for each in parts]
        else:
            value = _parsed(name, kind, match["value"].strip())
        if index is not None:
            chosen = found.setdefault(name, {})
            if not isinstance(chosen, dict) or int(index) in chosen:
                raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
            chosen[int(index)] = value
        elif name in found:
            raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
        else:
            found[name] = value
    return found


class HParams:
    """Hyperparameters as attributes.

    Args:
        hparam_def: Accepted for TensorFlow's sake: must be None.
        model_structure: Anything to keep with them.
        kwargs: The hyperparameters: numbers, texts, booleans, None, or lists of one type.

    Raises:
        ValueError: A name that is taken, an empty list, or a list of several types.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            raise ValueError("hparam_def must be None: give the hyperparameters by name")
        self._types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter.

        Raises:
            ValueError: The name is taken, or the value is an empty list.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, list | tuple):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._types[name] = (type(value[0]), True)
        else:
            self._types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes a hyperparameter.

        Raises:
            KeyError: There is none of that name.
            ValueError: The value is of another type.
        """
        kind, several = self._types[name]
        if isinstance(value, list):
            if not several:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_cast(name, kind, each) for each in value])
        else:
            if several:
                raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter, if there is one of that name."""
        if hasattr(self, name):
            delattr(self, name)
            del self._types[name]

    def parse(self, values: str) -> HParams:
        """Changes hyperparameters from text, see `parse_values`.

        Raises:
            ValueError: Text that is none, or a value of another type.
        """
        types = {name: kind for name, (kind, _) in self._types.items()}
        for name, value in parse_values(values, types).items():
            if isinstance(value, dict):
                whole = list(getattr(self, name))
                for index, each in value.items():
                    if index >= len(whole):
                        raise ValueError(f"{name}[{index}]: there are {len(whole)} elements")
                    whole[index] = each
                value = whole
            self.set_hparam(name, value)
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Changes hyperparameters from a dictionary.

        Raises:
            KeyError: There is none of that name.
            ValueError: A value of another type.
        """
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Changes hyperparameters from a JSON object, see `override_from_dict`."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """The hyperparameters as a JSON object."""
        return json.dumps(
            {name: value for name, value in self.values().items() if not callable(value)},
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    def values(self) -> dict[str, Any]:
        """The hyperparameters by name."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """A hyperparameter, or `default` where there is none of that name.

        Raises:
            ValueError: `default` is of another type.
        """
        if key not in self._types:
            return default
        if default is not None:
            kind, several = self._types[key]
            if several != isinstance(default, list):
                raise ValueError(f"{key} and its default {default!r} are not both lists")
            for each in default if isinstance(default, list) else [default]:
                _cast(key, kind, each)
        return getattr(self, key)

    def set_model_structure(self, model_structure: Any) -> None:
        """Keeps anything with the hyperparameters."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """The structure passed to `set_model_structure`."""
        return self._model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"
