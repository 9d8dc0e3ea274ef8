"""`tf.math`, `tf.nn` and their like, of which every name is defined elsewhere.

`sparkflow/__init__.py` has this folder on its path: `sparkflow.math` is `math` in here.
Made by `scripts/generate_api.py`.
"""
