"""Training: one run (trainer, session), many runs (study).

trainer        the loop; state: checkpoints of it; optim, losses: one step
session        a run from its folder to its outcome: what `slipstream train` does
study          variants x seeds x experiments; study_cells: a process for each run;
               study_on_engine: on the workers of an engine
forecast       trainings on nested subsets; learning_curve: what they say of more samples;
               forecast_answer: how many more a target takes
data           the store of a run, and its loaders
distributed    several processes in one run; replay: steps as a CUDA graph
window, sinks  what is recorded, and where it goes besides the run's folder
"""
