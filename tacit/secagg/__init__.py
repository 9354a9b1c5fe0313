"""Secure aggregation: the server learns the sum of the devices' vectors and nothing else. Pure stages, no I/O, no JAX.

session            the public constants of a round, and who is whose neighbour
parameters         how many neighbours, which threshold, for which failure probability
device, server     the protocol's stages: (state, message) → (message, state)
messages           canonical bytes and strict parsers
keys, masks, shamir    primitives with one use each; masks and packing; shares
rehearsal          a whole round in one process
encoding, hadamard     vectors as small integers with a proven norm, and back
discrete_gaussian  exact integer noise, for devices that add it themselves

docs/secagg.md explains the protocol and what it does not protect.
"""
