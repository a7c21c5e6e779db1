"""The report as one HTML file (html, web/), and its tables as markdown and LaTeX (tables)."""
