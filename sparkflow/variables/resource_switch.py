"""Whether variables that say nothing else are behind handles: TensorFlow's switch."""

from __future__ import annotations

from dataclasses import dataclass

from sparkflow._api import export


@dataclass(slots=True)
class _Chosen:
    enabled: bool = False


_chosen = _Chosen()


@export("enable_resource_variables")
def enable_resource_variables() -> None:
    """Makes `Variable` and `get_variable` create `ResourceVariable`s if `use_resource` is None."""
    _chosen.enabled = True


@export("disable_resource_variables")
def disable_resource_variables() -> None:
    """Makes them create reference variables again, the default."""
    _chosen.enabled = False


@export("resource_variables_enabled")
def resource_variables_enabled() -> bool:
    """Whether `enable_resource_variables` was called last."""
    return _chosen.enabled
