"""Specs with which `tf.parse_example` parses the features that columns read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkflow.feature_column.column import FeatureColumn


def make_parse_example_spec(feature_columns: Iterable[FeatureColumn]) -> dict[str, Any]:
    """The parsing configurations of the columns' features, by name.

    Raises:
        ValueError: Something is no column, or two columns parse a feature in two ways.
    """
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                f"All feature_columns must be FeatureColumn instances. Given: {column}"
            )
        for key, config in column.parse_example_spec.items():
            if key in found and config != found[key]:
                raise ValueError(
                    "feature_columns contain different parse_spec for key "
                    f"{key}. Given {config} and {found[key]}"
                )
        found.update(column.parse_example_spec)
    return found
