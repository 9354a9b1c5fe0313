"""The library: what `import tacit` offers, and what the commands ask.

train.py      train a model of one's own, or a recipe; resume; the rounds in the caller's hands
run.py        a run: model, metrics, ledger, cost, guarantee, report, audit, export
canaries.py   canary users for an audit
planning.py   the noise that a guarantee needs
inspection.py faults in text that nobody may read
"""
