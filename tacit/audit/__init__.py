"""Attacks on trained models: measure what a model has memorised of text that only a few users wrote.

plans.py                whole canary plans: devices, sharers, coins
run_audit.py            the audit of a finished run, from its plan to its outcome
scoring.py              the log-perplexities of millions of phrases
secret_sharer.py        two attacks: rank among random phrases, extraction by beam search
char_secret_sharer.py   the first attack on a character model: numbers that fill a known template
exposures.py            how often each canary was expected in training, and how often it was seen
membership.py           whether a user was in the training data, by loss and by the model's trajectory
lower_bound.py          a lower bound on epsilon from one run
outcome.py              the results of an audit in plain words, and as a section of the report
regimes.py              training regimes compared by what they memorise

Canaries and the users who hold them are in `tacit.data.canaries`; the audit of the gate is in `tacit.runs.gate_audit`.
"""
