"""Functions of `_generated/ops/files` that add one node. Made by `scripts/generate_api.py`."""
