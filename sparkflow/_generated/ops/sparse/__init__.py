"""Functions of `_generated/ops/sparse` that add one node. Made by `scripts/generate_api.py`."""
