"""The library: what `import tacit` offers, and what the commands call.

train.py      train a model of your own, or a recipe; resume; run the loop yourself
sweep.py      a grid of recipes side by side
run.py        a run: model, metrics, ledger, cost, guarantee, report, audit, export
canaries.py   canary users for an audit
planning.py   find the noise that a guarantee needs
inspection.py find faults in text that nobody may read
"""
