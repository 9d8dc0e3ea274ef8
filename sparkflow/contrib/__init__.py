"""`tf.contrib`: what TensorFlow 1 kept apart. Its parts are imported when they are first used."""

from sparkflow._api.loading import face
from sparkflow._generated.names import CONTRIB

__getattr__, __dir__, __all__ = face(__name__, {}, CONTRIB)
