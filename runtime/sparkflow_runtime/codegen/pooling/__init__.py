"""Pooling over images and volumes."""
