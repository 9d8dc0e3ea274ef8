"""Ops on images: decoding, colours, resizing, boxes."""
