"""Tables, figures and a page from records and predictions. Nothing here knows a model.

    study.gather -> study (tables, claims), draw (pictures) -> story -> Report -> page

content   what a report consists of, as values: the rooms below meet here
study/    what the runs of a study say: groups, tables, claims, verdicts
draw/     charts, and pictures of fields
page/     the report as one HTML file, and its tables as markdown and LaTeX
story     which tables and pictures there are, in which order; write: the report in a folder
"""
