"""A device of a fleet: the code that runs where the text is.

agent.py               one check-in and, if the device is selected, one round
connection.py          signed requests to the server, with limits on its answers
backoff.py             how long a device waits before it tries a request again
enrolment.py           exchanges an enrolment token for a device number
home.py                the device's folder: identity, settings, examples, downloads
policy.py              the owner's policy: what the device takes part in, whatever its server asks for
signed_files.py        files that the device trusts because of a key: policy and registry
terms.py               compares an offer with the policy, and with the best that the server offered before
memory.py              the device's memory of tasks and rounds, and the limits it enforces itself
server_memory.py       what the server had over all tasks, which no task, run or name resets
log_memory.py          what the device remembers of its server's public log
public_log.py          follows that log, and compares heads with another device
account.py             the device's own account of what it took part in and sent
receipts.py            the server's receipts, and whether the log counts what they are for
statement.py           what the device can say to its owner
leaving.py             how the device leaves
stated_noise.py        what the rounds cost if the server adds the noise it logged
spending.py            what the rounds cost, as the device can prove it from noise that devices add
conditions.py          whether the device is idle, charging and on an unmetered network
examples.py            the device's own text, as batches for a compiled plan
plan_registry.py       the plans that the device may run, signed by a key that is not the server's
cage.py                runs a plan in a process of its own, and ends it when it takes too long
cage_worker.py         that process
confinement.py         what it gives up first: memory, files, network
compiled_plans.py      checks and runs a downloaded plan, in that process
clipping.py            clips the update and computes its weight and bit, in float64
vouching.py            who vouches that an identity key belongs to a device
attestation.py         how a device proves to such a party that it is a device: the interface, and one for tests
status.py              what the device's owner can see
secure_aggregation.py  the update as integers, and the stages of secure aggregation

A device sends nothing but a clipped update (or its masked integers), a weight and a bit. Clipping, encoding, timer and limits
are the device's own code, never code that a server sends.
"""
