"""Brightness, contrast and colours of images, and their dtypes."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "RGBToHSV", "image.rgb_to_hsv", "images", "Hue, saturation and value of colours in [0, 1]."
    ),
    Row("HSVToRGB", "image.hsv_to_rgb", "images", "The inverse of `rgb_to_hsv`."),
)
