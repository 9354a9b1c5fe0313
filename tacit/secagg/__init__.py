"""Secure aggregation: the server learns the sum of the devices' vectors and nothing else. Pure functions, no I/O, no JAX.

session.py            the public constants of a round, and the ring of neighbours
parameters.py         how many neighbours and which threshold a round needs, for a stated probability of failure
device.py, server.py  the protocol's stages: (state, message) → (message, state)
messages.py           the messages as canonical bytes, with strict parsers
keys.py               signatures, key agreement, encryption
masks.py              masks, and vectors packed into bytes
shamir.py             Shamir's secret sharing
decoding.py           secrets from shares of which some are false, and who gave those
rehearsal.py          a whole round in one process
encoding.py           vectors as small integers with a proven norm, and back
hadamard.py           the rotation that the encoding uses
discrete_gaussian.py  exact integer noise, for devices that add it themselves

docs/secagg.md explains the protocol and what it does not protect.
"""
