"""Reading and writing image files."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "DecodePng",
        "image.decode_png io.decode_png",
        "contents, channels: int = 0, dtype=uint8",
        "[height, width, channels] pixels of a PNG file; its own channels for 0.",
    ),
    Row(
        "DecodeJpeg",
        "image.decode_jpeg io.decode_jpeg",
        (
            "contents, channels: int = 0, ratio: int = 1, fancy_upscaling: bool = True, "
            "try_recover_truncated: bool = False, acceptable_fraction: float = 1, dct_method: "
            'str = ""'
        ),
        "[height, width, channels] pixels of a JPEG file, smaller by `ratio`.",
    ),
    Row(
        "DecodeAndCropJpeg",
        "image.decode_and_crop_jpeg io.decode_and_crop_jpeg",
        (
            "contents, crop_window, channels: int = 0, ratio: int = 1, fancy_upscaling: bool "
            "= True, try_recover_truncated: bool = False, acceptable_fraction: float = 1, "
            'dct_method: str = ""'
        ),
        "The pixels of a JPEG file in the window [y, x, height, width].",
    ),
    Row(
        "DecodeBmp",
        "image.decode_bmp io.decode_bmp",
        "contents, channels: int = 0",
        "[height, width, channels] pixels of a BMP file.",
    ),
    Row(
        "DecodeGif",
        "image.decode_gif io.decode_gif",
        "contents",
        "[frames, height, width, 3] pixels of a GIF file.",
    ),
    Row(
        "EncodePng",
        "image.encode_png io.encode_png",
        "image, compression: int = -1",
        "A PNG file of [height, width, channels] uint8 or uint16 pixels.",
    ),
    Row(
        "EncodeJpeg",
        "image.encode_jpeg io.encode_jpeg",
        (
            'image, format: str = "", quality: int = 95, progressive: bool = False, '
            "optimize_size: bool = False, chroma_downsampling: bool = True, density_unit: str "
            '= "in", x_density: int = 300, y_density: int = 300, xmp_metadata: str = ""'
        ),
        "A JPEG file of [height, width, channels] uint8 pixels.",
    ),
    Row(
        "ExtractJpegShape",
        "image.extract_jpeg_shape io.extract_jpeg_shape",
        "contents, output_type=int32",
        "[height, width, channels] of a JPEG file.",
    ),
)
