"""`slim.nets`: networks."""

from sparkflow.contrib.slim.nets import resnet_utils, resnet_v1, resnet_v2, vgg

__all__ = ["resnet_utils", "resnet_v1", "resnet_v2", "vgg"]
