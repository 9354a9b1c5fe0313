"""A device of a fleet: the code that runs where the text is.

agent.py               one check-in and, if the device is selected, one round
connection.py          signed requests to the server, with limits on its answers
backoff.py             how long a device waits before it tries a request again
enrolment.py           exchanges an enrolment token for a device number
home.py                the device's folder: identity, settings, examples, downloads
memory.py              the device's memory of tasks and rounds, and the limits it enforces itself
conditions.py          whether the device is idle, charging and on an unmetered network
examples.py            the device's own text, as batches for a compiled plan
compiled_plans.py      checks and runs a downloaded plan
clipping.py            clips the update and computes its weight and bit, in float64
secure_aggregation.py  the update as integers, and the stages of secure aggregation

A device sends nothing but a clipped update (or its masked integers), a weight and a bit. Clipping, encoding, timer and limits
are the device's own code, never code that a server sends.
"""
