import pytest

import sparkflow as tf
from sparkflow.graph.default_stack import default_graphs


@pytest.fixture
def eager():
    """Eager execution for one test; afterwards the default graph is restored."""
    kept, default_graphs.implicit = default_graphs.implicit, None
    tf.enable_eager_execution()
    try:
        yield
    finally:
        tf.disable_eager_execution()
        default_graphs.implicit = kept
