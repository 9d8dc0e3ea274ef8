"""Functions of `_generated/ops/strings` that add one node. Made by `scripts/generate_api.py`."""
