"""What a trained model is worth, and whether a run is what it claims."""
