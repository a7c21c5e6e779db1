"""Tables, figures and a page from records and predictions. Nothing here knows a model."""
