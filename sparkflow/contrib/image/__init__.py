"""`tf.contrib.image`: rotated, translated, projected and warped images."""

from sparkflow.contrib.image.projective import rotate, transform, translate
from sparkflow.contrib.image.transforms import (
    angles_to_projective_transforms,
    compose_transforms,
    flat_transforms_to_matrices,
    matrices_to_flat_transforms,
    translations_to_projective_transforms,
)
from sparkflow.contrib.image.warping import dense_image_warp

__all__ = [
    "angles_to_projective_transforms",
    "compose_transforms",
    "dense_image_warp",
    "flat_transforms_to_matrices",
    "matrices_to_flat_transforms",
    "rotate",
    "transform",
    "translate",
    "translations_to_projective_transforms",
]
