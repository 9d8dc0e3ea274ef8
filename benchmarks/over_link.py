"""Runs a command in a separate network namespace, where loopback is only as fast as a network.

    sudo .venv/bin/python benchmarks/over_link.py 10gbit .venv/bin/python benchmarks/encryption.py

Tasks on one machine use shared memory, and the cost of TCP over bare loopback, which is limited by
processors only, does not occur in clusters. Here the kernel's token bucket (`tc`, tbf) limits the
rate of loopback, both directions together, with jumbo frames. Needs Linux, root, and ip, tc and
unshare of iproute2 and util-linux; other processes on the machine are not affected.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys

MTU = 9000
SET_UP = """\
ip link set lo up
ip link set lo mtu {mtu}
tc qdisc add dev lo root tbf rate {rate} burst 256kb latency 50ms
exec {command}
"""


def main() -> None:
    """Replaces this process by the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rate", help="as tc has it, such as 10gbit")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} of iproute2 and util-linux is not here")
    set_up = SET_UP.format(
        mtu=MTU, rate=shlex.quote(options.rate), command=shlex.join(options.command)
    )
    os.execvp("unshare", ["unshare", "--net", "sh", "-ec", set_up])  # noqa: S606, S607  # as asked


if __name__ == "__main__":
    main()
