"""`tf.io`: files, TFRecords and messages, in graphs and outside of them."""

from sparkflow._api.loading import face
from sparkflow._generated.packages import HOMES, SUBMODULES

__getattr__, __dir__, __all__ = face(__name__, HOMES["io"], SUBMODULES["io"])
