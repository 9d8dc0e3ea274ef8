"""Made by `scripts/generate_api.py`; nothing in here is written by hand."""
