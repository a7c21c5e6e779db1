"""Slice and deslice: the definition, the contract and the implementations."""
