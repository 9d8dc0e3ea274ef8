"""`tf.image`: functions on images.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.image.boxes": "non_max_suppression non_max_suppression_overlaps",
        "sparkflow._generated.ops.image.codec": (
            "decode_and_crop_jpeg decode_bmp decode_gif decode_jpeg decode_png encode_jpeg "
            "encode_png extract_jpeg_shape"
        ),
        "sparkflow._generated.ops.image.color": "hsv_to_rgb rgb_to_hsv",
        "sparkflow._generated.ops.image.geometry": "resize_area resize_bicubic resize_bilinear resize_nearest_neighbor",
        "sparkflow._generated.ops.image.sampling": "extract_glimpse",
        "sparkflow.ops.image.boxes": "non_max_suppression_padded",
        "sparkflow.ops.image.codec": "adjust_jpeg_quality decode_image is_jpeg random_jpeg_quality",
        "sparkflow.ops.image.color": (
            "adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation "
            "convert_image_dtype grayscale_to_rgb per_image_standardization random_brightness "
            "random_contrast random_hue random_saturation rgb_to_grayscale rgb_to_yiq "
            "rgb_to_yuv yiq_to_rgb yuv_to_rgb"
        ),
        "sparkflow.ops.image.geometry": (
            "ResizeMethod central_crop crop_and_resize crop_to_bounding_box flip_left_right "
            "flip_up_down pad_to_bounding_box random_flip_left_right random_flip_up_down "
            "resize_image_with_crop_or_pad "
            "resize_image_with_crop_or_pad:resize_with_crop_or_pad resize_image_with_pad "
            "resize_images:resize resize_images rot90 transpose_image:transpose "
            "transpose_image"
        ),
        "sparkflow.ops.image.measures": "image_gradients psnr sobel_edges ssim ssim_multiscale total_variation",
        "sparkflow.ops.image.sampling": (
            "combined_non_max_suppression draw_bounding_boxes non_max_suppression_with_scores "
            "sample_distorted_bounding_box"
        ),
        "sparkflow.ops.nn.morphology": "extract_image_patches extract_patches",
        "sparkflow.ops.random.random": "random_crop",
    },
)
