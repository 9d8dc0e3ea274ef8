"""Functions of `_generated/ops/shape` that add one node. Made by `scripts/generate_api.py`."""
