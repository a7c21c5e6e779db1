"""Models of other packages and other forms of ours: what is in which file."""
