"""File formats that keep the values of variables."""
