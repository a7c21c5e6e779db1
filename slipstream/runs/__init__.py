"""Runs on disk: their configs, records, checkpoints and model files."""
