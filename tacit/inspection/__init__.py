"""Finding faults in data nobody may open: differentially private generative models in place of looking.

selection.py         which users and examples a generative model learns from (T1 to T6), decided on the user's side
judging.py           what a primary model gets right on one user's examples, and how likely text is to a model
quantiles.py         a histogram of users' accuracies that crosses the gate, and the thresholds read from it
scores.py            numbers that say whether a fault is visible in generated images and words
text_recipe.py       the recipe of an inspection of text
primary.py           the next-word model that is looked into: its accuracy, and what it says
sentences.py         sentences that such a model makes up
held_out.py          what held-out users show, outside the guarantee: rates of unknown words, how well a model spells them
text_run.py          an inspection of text as a run: the loop, the journal and the ledger around a model of characters
findings.py          what such a model says, and what that points to: a section of the report
costs.py             what models cost the users: one, several together, at scale
text_comparison.py   two inspections held against each other
image_recipe.py      the recipe of an inspection of images
image_data.py        its users: as they were, as their images come now, and some held out
image_stages.py      its models, each a run: a classifier, the histogram of accuracies, two generative models
image_run.py         the whole of it: run after run, from the recipe to the findings
image_findings.py    what the two models make, and what that points to: a section of the report
"""
