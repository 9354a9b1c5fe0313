"""Finding faults in data nobody may open: differentially private generative models in place of looking.

selection.py         which users and examples a generative model learns from (T1 to T6), decided on the user's side
judging.py           what a primary model gets right on one user's examples, and how likely text is to a model
quantiles.py         thresholds and histograms of users' accuracies that cross the gate
scores.py            numbers that say whether a fault is visible in generated images and words
text_recipe.py       the recipe of an inspection of text
held_out.py          what held-out users show, outside the guarantee: rates of unknown words, how well a model spells them
text_run.py          an inspection of text as a run: the loop, the journal and the ledger around a model of characters
findings.py          what such a model says, and what that points to: a section of the report
text_comparison.py   two inspections held against each other
"""
