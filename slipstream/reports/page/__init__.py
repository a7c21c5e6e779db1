"""The report as one HTML file that loads nothing (html, web/), and its tables as files (tables)."""
