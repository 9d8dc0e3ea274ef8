"""Functions of `_generated/ops/linalg` that add one node. Made by `scripts/generate_api.py`."""
