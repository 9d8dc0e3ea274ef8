"""Functions of `_generated/ops` that add one node. Made by `scripts/generate_api.py`."""
