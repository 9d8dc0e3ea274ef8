"""Settings of sessions without a ConfigProto, made through `tf.config`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkflow_runtime.protos.config_pb2 import ConfigProto


class Defaults:
    """What sessions of this process are opened with; `lock` guards the message.

    It is made when something is to be set or asked: most programs need no ConfigProto at all.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._config: ConfigProto | None = None

    @property
    def config(self) -> ConfigProto:
        """The current settings, to be changed in place."""
        if self._config is None:
            from sparkflow_runtime.protos.config_pb2 import ConfigProto

            self._config = ConfigProto()
        return self._config

    @property
    def is_set(self) -> bool:
        """Whether anything was set or asked."""
        return self._config is not None


defaults = Defaults()


def default_config() -> ConfigProto | None:
    """The ConfigProto of sessions that are opened without one; None where nothing was set."""
    with defaults.lock:
        if not defaults.is_set:
            return None
        from sparkflow_runtime.protos.config_pb2 import ConfigProto

        found = ConfigProto()
        found.CopyFrom(defaults.config)
    return found
