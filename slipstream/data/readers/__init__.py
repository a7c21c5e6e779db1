"""Readers: raw files of the benchmarks, and of anybody's solver, as sources of samples."""
