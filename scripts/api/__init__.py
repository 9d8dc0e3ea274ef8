"""What `scripts/generate_api.py` is made of: reading declarations, writing functions and faces."""
