"""Functions of `_generated/ops/nn` that add one node. Made by `scripts/generate_api.py`."""
