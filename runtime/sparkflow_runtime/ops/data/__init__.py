"""Datasets and iterators as ops."""
