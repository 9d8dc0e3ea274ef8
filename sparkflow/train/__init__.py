"""`tf.train`: optimizers, the step counter, clusters and servers."""

from sparkflow._api.loading import face
from sparkflow._generated.packages import HOMES, SUBMODULES

__getattr__, __dir__, __all__ = face(__name__, HOMES["train"], SUBMODULES["train"])
