"""One partition becomes one callable."""
