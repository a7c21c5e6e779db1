"""Measurements: kernels, the model, streaming, tuning of tiles, and what can be trusted how far."""
