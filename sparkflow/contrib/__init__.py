"""`tf.contrib`: what TensorFlow 1 kept apart. Its parts are imported when they are first used."""

from typing import Any

import lazy_loader

from sparkflow.absent import answers

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name not in __all__ and not name.startswith("_"):
        answers("contrib")(name)
    return _load(name)
