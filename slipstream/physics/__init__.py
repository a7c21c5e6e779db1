"""Built-in data with exact solutions."""
