"""Resizing, cropping, padding, turning and mirroring images.

Images are [height, width, channels], or [batch, height, width, channels].
"""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "ResizeBilinear",
        "image.resize_bilinear",
        ("images, size, align_corners: bool = False, name=None, half_pixel_centers: bool = False"),
        ("Images [batch, height, width, channels] in another size: means of four pixels, float32."),
        arguments={
            "images": "Real numbers.",
            "size": "[height, width] int32.",
            "align_corners": "Whether the corners' pixels stay where they are.",
            "half_pixel_centers": "Whether pixels are meant to lie at half numbers.",
        },
    ),
    Row(
        "ResizeNearestNeighbor",
        "image.resize_nearest_neighbor",
        ("images, size, align_corners: bool = False, name=None, half_pixel_centers: bool = False"),
        "As `resize_bilinear`, each pixel one of the input's, of the same dtype.",
    ),
    Row(
        "ResizeBicubic",
        "image.resize_bicubic",
        ("images, size, align_corners: bool = False, name=None, half_pixel_centers: bool = False"),
        "As `resize_bilinear`, by cubic interpolation of sixteen pixels.",
    ),
    Row(
        "ResizeArea",
        "image.resize_area",
        "images, size, align_corners: bool = False",
        ("As `resize_bilinear`, each pixel the mean of the area it covers; there is no gradient."),
    ),
)
