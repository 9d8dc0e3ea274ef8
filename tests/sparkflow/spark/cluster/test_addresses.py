"""Which address of this machine a driver sees."""

import pytest

from sparkflow.spark.cluster.addresses import address_towards


@pytest.mark.parametrize("driver", ["127.0.0.1:1234", "localhost:1"])
def test_a_driver_on_this_machine_sees_loopback(driver):
    assert address_towards(driver) in ("127.0.0.1", "::1")
