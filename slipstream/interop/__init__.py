"""Models of other packages: `accelerate` computes their physics attention by our kernels."""
