"""What the runs of a study say, from their records.

gather           all that is known of the runs, from their folders; planned: what was to be
settings         runs in groups that may be compared
study_tables     the tables of errors; sweep_tables: over a swept field; cells: of all tables
insight_tables   what explains errors; captions: how numbers were measured
system_tables    speed and memory, from records of `slipstream bench`
evidence         the groups that decide claims, and errors as samples; measures: numbers from them
claims           the paper's claims; judgement: verdicts on them; claims_table: tables of both
conclusion       three verdicts in sentences
"""
