"""What sessions without a ConfigProto do, as `tf.config` says."""

from __future__ import annotations

import threading

from sparkflow_runtime.protos.config_pb2 import ConfigProto


class Defaults:
    """What sessions of this process are opened with; `lock` guards `config`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.config = ConfigProto()


defaults = Defaults()


def default_config() -> ConfigProto:
    """The ConfigProto of sessions that are opened without one."""
    found = ConfigProto()
    with defaults.lock:
        found.CopyFrom(defaults.config)
    return found
