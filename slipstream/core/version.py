"""The version of the package, here once; pyproject.toml reads it."""

VERSION = "0.1.0"
