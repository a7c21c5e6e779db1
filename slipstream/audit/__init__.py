"""Proof from the files of runs that each is the ablation it claims to be.

study_audit     the audit of several runs: each, and whether they differ in the variant only
run_audit       the audit of one run (weight_checks, history_checks)
artefacts       what the folder of a run holds, read once
certificate     the result of an audit, as values, JSON and text
"""
