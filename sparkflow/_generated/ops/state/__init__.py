"""Functions of `_generated/ops/state` that add one node. Made by `scripts/generate_api.py`."""
