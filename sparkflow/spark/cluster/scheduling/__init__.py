"""Scheduling of all tasks at once: resources, slots, and advice if they do not fit."""
