import sys

import pytest

from sparkflow_runtime.files.arrow import require_arrow


def test_with_pyarrow_it_does_nothing():
    pytest.importorskip("pyarrow")
    require_arrow()


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'sparkflow-ml\[arrow\]'"):
        require_arrow()
