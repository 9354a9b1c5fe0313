"""Attacks on trained models: what a model remembers of text that only a few people wrote.

canaries.py        random phrases, how they are shared, and the plan that keeps both
planting.py        views that let users hold them, over data that stays as it is
exposures.py       how often each was expected to be seen in training, and how often it was
scoring.py         the log-perplexities of millions of phrases
secret_sharer.py   the two attacks: rank among random phrases, extraction by beam search
"""
