"""The audit is tried on the runs and studies that evaluation is."""

from ..evaluation.conftest import made, made_study, run, study

__all__ = ["made", "made_study", "run", "study"]
