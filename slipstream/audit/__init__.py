"""Proof from the files of runs that each is the ablation it claims to be.

study_audit     the audit of several runs: each, and whether they differ in the variant alone
run_audit       the audit of one run (weight_checks, history_checks)
artefacts       what the folder of a run holds, read once
certificate     what an audit found, as values, JSON and text
"""
