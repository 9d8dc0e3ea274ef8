"""A module that a fork server runs: answers one request of its standard input, see `main`."""

import json
import os
import random
import sys
import time

import numpy as np


def main() -> None:
    """Describes itself, then does what it is asked to: exit, raise, or wait for its end."""
    request = json.loads(sys.stdin.readline())
    answer = {
        "parent": os.getppid(),
        "variables": {name: os.environ.get(name) for name in request.get("variables", ())},
        "open": sorted(int(each) for each in os.listdir("/proc/self/fd")),
        "draws": [random.random(), float(np.random.random())],
    }
    print(json.dumps(answer), flush=True)
    if "exit" in request:
        sys.exit(request["exit"])
    if "error" in request:
        raise ValueError(request["error"])
    if "hang" in request:
        time.sleep(600)
    sys.stdin.read()
