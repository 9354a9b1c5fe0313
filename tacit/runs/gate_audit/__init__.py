"""The audit of the gate: made-up contributions of known direction, and a look at the noise of every release.

- `layout`   which directions are looked at, what the made-up contributions are, and what the gate must make of them
- `record`   what one round showed, as it is kept in the run's private folder
- `checks`   exact tests of those numbers against the noise and the bounds that the ledger states
- `outcome`  the result, in words
"""
