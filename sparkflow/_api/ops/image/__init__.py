"""The rows of functions on images that add one node."""
