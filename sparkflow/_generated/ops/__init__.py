"""Functions that add one node. Made by `scripts/generate_api.py`."""
