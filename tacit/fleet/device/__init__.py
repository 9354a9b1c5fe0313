"""The other side of a fleet: what runs where the text is.

home.py         a device's folder: identity, settings, own examples, downloads; one process at a time
memory.py       what a device remembers of tasks, and the rules it keeps whatever the server says
conditions.py   whether the device has time now: idle, charging, unmetered
examples.py     its own text, as the batches a plan reads
plans.py        a downloaded plan, held to what it may be, and run
clipping.py     clip, weight and bit: the device's own code, in float64
secure.py       the same as integers, and the stages of secure aggregation over the wire
connection.py   signed requests, bounded answers, patience
enrolment.py    how a device becomes one of a fleet
agent.py        ties them together: one check-in and, if chosen, one round

Nothing leaves but a clipped update (or, masked, its integers), a weight and a bit. Clipping, encoding, timer and limits are
never part of what a server sends.
"""
