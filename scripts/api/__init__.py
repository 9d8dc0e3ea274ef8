"""Parts of `scripts/generate_api.py`: reading declarations, writing functions and faces."""
