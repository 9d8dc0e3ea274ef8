"""Functions of `_generated/ops/indexing` that add one node. Made by `scripts/generate_api.py`."""
