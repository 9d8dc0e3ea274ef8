"""Selection of the address at which other machines reach this one."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import socket
import struct
from pathlib import Path
from typing import Final

from sparkflow.spark.endpoints import network_of
from sparkflow_runtime.errors import InvalidArgumentError

_SIOCGIFCONF: Final = 0x8912
# `struct ifreq` on 64 bits: a name of 16 bytes, then a sockaddr_in with its address at byte 4.
_REQUEST: Final = 40
_MAX_ADDRESSES: Final = 256
_IPV6: Final = Path("/proc/net/if_inet6")


def address_towards(driver: str) -> str:
    """Returns this machine's address as seen by the driver. Sends nothing.

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


def own_address(driver: str, interface: str) -> str:
    """Returns the address of this machine that a process listens on.

    Args:
        driver: `host:port`.
        interface: See `Endpoints`.

    Raises:
        InvalidArgumentError: This machine has no such interface or address.
    """
    if not interface:
        return address_towards(driver)
    network = network_of(interface)
    found = [
        address
        for name, address in local_addresses()
        if (name == interface if network is None else ipaddress.ip_address(address) in network)
    ]
    if not found:
        there = ", ".join(f"{name} {address}" for name, address in local_addresses())
        raise InvalidArgumentError(
            message=f"interface={interface!r}: {socket.gethostname()} has no such address. It has "
            f"{there}. A network such as '10.1.0.0/16' finds the address of each machine"
        )
    # Peers that reach the driver over IPv6 may have nothing else, and vice versa.
    is_ipv6 = ":" in driver.rpartition(":")[0]
    return min(found, key=lambda address: (":" in address) != is_ipv6)


def local_addresses() -> list[tuple[str, str]]:
    """Returns this machine's addresses with their interfaces' names, except link-local ones."""
    return _ipv4_addresses() + _ipv6_addresses()


def _ipv4_addresses() -> list[tuple[str, str]]:
    answers = array.array("B", bytes(_MAX_ADDRESSES * _REQUEST))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        question = struct.pack("iL", len(answers), answers.buffer_info()[0])
        answer = fcntl.ioctl(asked.fileno(), _SIOCGIFCONF, question)
    size = struct.unpack("iL", answer)[0]
    content = answers.tobytes()[:size]
    found = []
    for start in range(0, size, _REQUEST):
        name = content[start : start + 16].split(b"\0", 1)[0].decode()
        # An alias (`eth0:1`) is an address of its interface.
        found.append((name.split(":")[0], socket.inet_ntoa(content[start + 20 : start + 24])))
    return found


def _ipv6_addresses() -> list[tuple[str, str]]:
    try:
        lines = _IPV6.read_text().splitlines()
    except OSError:  # the kernel has none
        return []
    found = []
    for line in lines:
        digits, _, _, _, _, name = line.split()
        address = ipaddress.IPv6Address(bytes.fromhex(digits))
        if not address.is_link_local:  # which is only valid together with an interface
            found.append((name, str(address)))
    return found
