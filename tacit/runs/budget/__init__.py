"""The budget of a group of people, and the account that every job on them draws from: `accounting.budget_filter` has the proof.

records       the lines of an account, and what they come to
account       reserve, settle, and refuse
of_store      the account of a store's people, a file beside its odometer
reservation   what one run has reserved
listed        charges from the ledgers of a store's runs
status        the budget as its owner reads it
advice        what would fit

A fleet keeps the same lines in its database (`tacit.fleet.database.budget_table`).
"""
