"""Boxes drawn into images and drawn at random, glimpses of images, boxes chosen by class."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "ExtractGlimpse",
        "image.extract_glimpse",
        (
            "input, size, offsets, centered: bool = True, normalized: bool = True, "
            "uniform_noise: bool = True"
        ),
        "A window of each image around an offset; noise where it leaves the image.",
        arguments={
            "input": "[batch, height, width, channels] float32.",
            "size": "[height, width] int32 of the window.",
            "offsets": "[batch, 2] float32: y, x of the window.",
            "centered": "Whether offsets count from the middle of the image.",
            "normalized": "Whether offsets are parts of the image's size (centred: of half of it).",
            "uniform_noise": "Uniform noise, or normal noise of the images' mean and deviation.",
        },
    ),
)
