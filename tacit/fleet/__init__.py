"""Users on real devices: the same loop, gate and mechanisms as in simulation, with a network in between.

wire.py              what devices and server say to each other: paths, messages, the bytes of a report
signing.py           a device's signature on a request, and why it cannot be replayed
recipe.py            a run on devices as validated data
schema.py            the tables that the server's processes share
database.py          SQLite or PostgreSQL, and how one becomes the other's equal; migrations
enrolment.py         tokens, devices and their keys
selection.py         who may take part in a round now, and when the others should come back
sums.py              reports added up on the users' side of the gate, in memory that does not grow with the cohort
sealed.py            partial sums on their way from one process to another
aggregator.py        rounds in the memory of one process: reports, or the stages of secure aggregation
tasks.py             what devices are given: the work as a compiled plan, its description, the words
coordinator.py       opens rounds, waits, settles who took part, hands the sum to the loop
api.py               the HTTP interface; serving.py runs it, with certificates and a clean end
device/              the other side: identity, local store, timer, work, and the agent that ties them together
"""
