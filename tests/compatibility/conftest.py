"""These tests run the plans that otherwise run only in a later step."""

import pytest


@pytest.fixture(autouse=True)
def _at_once(plans_at_once: None) -> None:
    pass
