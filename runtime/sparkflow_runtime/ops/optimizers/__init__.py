"""Ops that apply gradients to variables, and the update rules behind them."""
