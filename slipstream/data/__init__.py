"""Point stores: how samples get in, and how batches come out."""
