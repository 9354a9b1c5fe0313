"""Kinds of mechanism: all that Tacit knows about one beside the release itself, in one file each. No JAX is loaded here.

A kind says how a plan builds the mechanism (`tacit.privacy.noise.mechanisms` draws the noise), under which sampling it is
proven, what its releases cost, and what the guarantee says about it. Plans, accounting, statements and the checks of a
program look kinds up by name in `registry`.
"""

from tacit.privacy.noise.kinds.base import MechanismKind
from tacit.privacy.noise.kinds.registry import KINDS, kind_of, register_mechanism, register_strategy, training_names

__all__ = ["KINDS", "MechanismKind", "kind_of", "register_mechanism", "register_strategy", "training_names"]
