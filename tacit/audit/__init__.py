"""Attacks on trained models: what a model remembers of text that only a few people wrote.

canaries.py        random phrases, how they are shared, and the plan that keeps both
plans.py           whole plans: devices, sharers, coins
planting.py        views that let users hold them, over data that stays as it is
devices.py         synthetic users after the real ones, and how often they take part
splicing.py        examples put together anew
exposures.py       how often each was expected to be seen in training, and how often it was
scoring.py         the log-perplexities of millions of phrases
secret_sharer.py   two attacks: rank among random phrases, extraction by beam search
characters.py      the first of them on a model of characters: numbers in a known form
membership.py      was this user in? by loss, and by the model's trajectory
lower_bound.py     epsilon from below, from one run
outcome.py         what an audit found, in plain words and as a section of the report

Training with canaries and the audit of a run are in tacit/simulation (datasets.py, auditing.py, regimes.py).
"""
