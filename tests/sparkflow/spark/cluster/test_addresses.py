"""Which address of this machine a driver sees, and which the user chooses."""

import pytest

from sparkflow.spark.cluster.addresses import address_towards, local_addresses, own_address
from sparkflow_runtime.errors import InvalidArgumentError


@pytest.mark.parametrize("driver", ["127.0.0.1:1234", "localhost:1"])
def test_a_driver_on_this_machine_sees_loopback(driver):
    assert address_towards(driver) in ("127.0.0.1", "::1")
    assert own_address(driver, "") == address_towards(driver)


def test_the_machine_has_loopback():
    assert ("lo", "127.0.0.1") in local_addresses()
    assert not any(address.startswith("fe80") for _, address in local_addresses())


@pytest.mark.parametrize("interface", ["lo", "127.0.0.1", "127.0.0.0/8"])
def test_an_interface_by_name_address_or_network(interface):
    assert own_address("10.0.0.1:7", interface) == "127.0.0.1"


@pytest.mark.skipif(("lo", "::1") not in local_addresses(), reason="this machine has no IPv6")
def test_the_family_is_that_of_the_driver():
    assert own_address("[fd00::9]:7", "lo") == "::1"
    assert own_address("10.0.0.9:7", "lo") == "127.0.0.1"
    assert own_address("10.0.0.9:7", "::1") == "::1"


@pytest.mark.parametrize("interface", ["eth77", "203.0.113.0/24"])
def test_one_that_there_is_not_is_an_error_with_those_that_there_are(interface):
    with pytest.raises(InvalidArgumentError, match=rf"interface='{interface}': .* lo 127\.0\.0\.1"):
        own_address("127.0.0.1:1", interface)
