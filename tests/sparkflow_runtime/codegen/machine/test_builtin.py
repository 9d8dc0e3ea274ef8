import gc
import weakref

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import linking, native
from sparkflow_runtime.codegen.machine.builtin import Builtin, address_in_python
from sparkflow_runtime.codegen.machine.host import DATA

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

GIVES_FIRST = f"""
define ptr @function(ptr %self, ptr %args, i64 %nargs) {{
  %at_record = getelementptr i8, ptr %self, i64 {DATA}
  %record = load ptr, ptr %at_record
  %at_increment = getelementptr ptr, ptr %record, i64 1
  %result = load ptr, ptr %record
  %increment = load ptr, ptr %at_increment
  call void %increment(ptr %result)
  ret ptr %result
}}
"""


def test_a_function_keeps_alive_what_it_points_to():
    made = Builtin(linking.link(GIVES_FIRST, ("function",)).address("function"))
    record = np.array([id(True), address_in_python("Py_IncRef")], np.int64)
    function = made.of(record)
    definition, given = weakref.ref(made._definition), weakref.ref(record)
    with pytest.raises(ValueError, match="read-only"):
        record[0] = 0
    del made, record
    gc.collect()
    assert definition() is not None
    assert given() is not None
    assert function() is True
    del function
    assert definition() is None
    assert given() is None
