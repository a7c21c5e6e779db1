"""Tables, figures and a page from records and predictions. Nothing here loads a model.

    study.gather -> study (tables, claims), draw (pictures) -> story -> Report -> page

content   what a report consists of, as values
study/    what the runs of a study say: groups, tables, claims, verdicts
draw/     charts, and pictures of fields
page/     the report as one HTML file, and its tables as markdown and LaTeX
story     makes the report: which tables and pictures, in which order; write: into a folder
"""
