"""Kernels that move and combine pixels, for resizing and cropping images."""
