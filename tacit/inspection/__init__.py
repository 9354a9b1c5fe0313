"""Finding faults in data nobody may open: differentially private generative models in place of looking.

selection.py   which users and examples a generative model learns from (T1 to T6), decided on the user's side
judging.py     what a primary model gets right on one user's examples, and how likely text is to a model
quantiles.py   thresholds and histograms of users' accuracies that cross the gate
scores.py      numbers that say whether a fault is visible in generated images and words
"""
