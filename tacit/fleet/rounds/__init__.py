"""Rounds with real devices: selection, reports, sums, and the run that they belong to.

coordinator.py          starts a run, and continues it from the ledger after every failure
program.py              a run on devices as the run driver takes it; devices' sums cross the gate here
evaluation.py           measures a trained model on devices, through the same gate
task_compiler.py        compiles the work of a recipe into the task that devices download
fleet_context.py        the context that all rounds of a run share
device_rounds.py        the rounds of a run, one after the other; the limit on lost rounds
round_attempt.py        one round: opened, filled, and settled, or abandoned when devices are missing
participation_check.py  MinS and MaxP once more, checked against the run's own record
selection.py            which device gets a place in which round
pace_steering.py        how long a device should wait before its next check-in
aggregator.py           receives reports in one process and keeps the running sums
notary.py               signs a receipt for each contribution
norm_check.py           the check of a report's norm
partial_sums.py         the sum of one process's reports
secure_aggregation.py   a round of secure aggregation in one process
secure_size.py          how many devices such a round needs, and its threshold
peers.py                how the coordinator reaches the processes that add up
"""
