"""The library: what `import tacit` offers, and what the commands ask.

train.py      train a model of one's own, or a recipe; resume; the rounds in the caller's hands
run.py        a run: model, metrics, ledger, cost, guarantee, report, audit, export
planning.py   the noise that a guarantee needs
canaries.py   made-up users to plant, for an audit
inspection.py faults in text that nobody may read
"""
