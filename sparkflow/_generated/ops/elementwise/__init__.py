"""Functions of `_generated/ops/elementwise` that add one node. Made by `scripts/generate_api.py`."""
