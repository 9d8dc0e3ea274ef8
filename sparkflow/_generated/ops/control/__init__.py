"""Functions of `_generated/ops/control` that add one node. Made by `scripts/generate_api.py`."""
