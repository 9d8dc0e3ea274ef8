"""Functions of `_generated/ops/convolution` that add one node. Made by `scripts/generate_api.py`."""
