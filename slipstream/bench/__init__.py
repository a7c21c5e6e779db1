"""Measurements of the kernels and the model, and the tuning of tiles."""
