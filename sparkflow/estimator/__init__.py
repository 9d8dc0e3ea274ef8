"""`tf.estimator`: models as functions, trained, evaluated, asked and exported."""

from sparkflow._api.loading import face
from sparkflow._generated.packages import HOMES, SUBMODULES

__getattr__, __dir__, __all__ = face(__name__, HOMES["estimator"], SUBMODULES["estimator"])
