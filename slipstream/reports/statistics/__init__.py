"""Statistics of errors of several runs, on plain numbers: nothing in here knows what a run is.

student      Student's t distribution
estimate     logarithms of errors as samples, and differences of their means (Welch)
verdicts     what an estimate says about a band: equivalent, below, above, different or undecided
correction   levels for several verdicts at once
power        how many seeds a verdict would need
bootstrap    intervals over seeds and test samples
"""
