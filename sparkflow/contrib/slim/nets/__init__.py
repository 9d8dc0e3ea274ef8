"""`slim.nets`: networks."""

from sparkflow.contrib.slim.nets import vgg

__all__ = ["vgg"]
