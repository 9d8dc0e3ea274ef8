"""Which of a machine's addresses others reach it by."""

from __future__ import annotations

import socket


def address_towards(driver: str) -> str:
    """This machine's address as the driver sees it. Sends nothing.

    Args:
        driver: `host:port`.
    """
    host, _, port = driver.rpartition(":")
    family, kind, protocol, _, address = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
