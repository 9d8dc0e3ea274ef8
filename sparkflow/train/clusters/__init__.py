"""Servers, cluster specifications, and the placement of variables."""
