"""Measurements of the kernels, the model and streaming, and the tuning of tiles."""
