"""Dilation and erosion of images, and the extraction of patches."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "ExtractVolumePatches",
        "extract_volume_patches",
        "input, ksizes, strides, padding: str",
        "As `extract_image_patches` for volumes [batch, depth, height, width, channels].",
    ),
)
