"""Functions of `_generated/ops/reduction` that add one node. Made by `scripts/generate_api.py`."""
