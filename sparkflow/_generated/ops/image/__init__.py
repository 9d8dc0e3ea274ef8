"""Functions of `_generated/ops/image` that add one node. Made by `scripts/generate_api.py`."""
