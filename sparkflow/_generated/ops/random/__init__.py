"""Functions of `_generated/ops/random` that add one node. Made by `scripts/generate_api.py`."""
