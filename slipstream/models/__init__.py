"""The Transolver and its ablations."""
