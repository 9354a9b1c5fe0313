"""A contribution as integers, and the stages of secure aggregation over the wire.

The integers are those of `tacit.simulation.secure_gate`, in NumPy, with draws from the operating system: the weighed update
divided by the round's clip, then the weight in units of 1/E where it counts, then the bit as ±1, each with its share of
noise where devices add it.

A state of the protocol is used once and lives in memory alone: a device that is killed leaves the round. What was lost on the
way is sent again as the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from tacit.errors import FleetError
from tacit.fleet.device.clipping import Contribution
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.home import SecAggAssumptions
from tacit.fleet.wire.messages import ROUNDS, Assignment, SecAggTerms, SessionTerms, Stage, Task
from tacit.privacy.gate.rounding import HEADROOM
from tacit.secagg import device, keys, parameters
from tacit.secagg.discrete_gaussian import Bits, sampled
from tacit.secagg.encoding import Encoding, encoded
from tacit.secagg.hadamard import public_signs
from tacit.secagg.session import Session

# The keys, shares or witnesses of a few thousand neighbours.
MOST_MESSAGE_BYTES = 1 << 24


def integers_of(contribution: Contribution, terms: SecAggTerms, assignment: Assignment) -> NDArray[np.uint32]:
    """The vector a device masks; every call draws anew, so it is made once a round."""
    if assignment.signs_seed is None:
        raise FleetError("Expected a seed of the rotation with a round of secure aggregation, got none.")
    encoding = encoding_of(terms)
    signs = public_signs(bytes.fromhex(assignment.signs_seed), encoding.padded)
    drawn = (Bits(os.urandom).words(encoding.padded + 1) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    vector = contribution.update * (contribution.weight * HEADROOM / assignment.clip_norm)
    whole = [encoded(vector, encoding, signs=signs, uniforms=drawn[:-1]).astype(np.int64)]
    if terms.weighted:
        most = encoding.element_clip
        whole.append(np.array([min(int(np.floor(contribution.weight * most + drawn[-1])), most)]))
    if assignment.threshold is not None:
        whole.append(np.array([contribution.within if contribution.weight > 0 else 0]))
    result = np.concatenate(whole)
    noise = sampled(terms.local_variance, len(result), entropy=os.urandom)
    return ((result + noise) & ((1 << encoding.bits) - 1)).astype(np.uint32)


def encoding_of(terms: SecAggTerms) -> Encoding:
    """Of updates divided by the round's clip; ProtocolError if the numbers make none."""
    return Encoding(
        dimension=terms.dimension,
        clip_norm=1.0,
        scale=terms.scale,
        element_clip=terms.element_clip,
        bits=terms.bits,
        block=terms.block,
        rounding_failure=terms.rounding_failure,
    )


def take_part(
    connection: Connection,
    task: Task,
    assignment: Assignment,
    values: NDArray[np.uint32],
    *,
    identity: bytes,
    assumptions: SecAggAssumptions,
    until: float,
    before_sending: Callable[[], None],
) -> None:
    """All stages of a round. `before_sending` is called once, right before the masked vector leaves.

    FleetError or ProtocolError if the server refuses, or says something that an honest one would not: the device has then
    left the round.
    """
    at, path = connection.permitted(assignment.upload_to), f"{ROUNDS}/{assignment.round_id}/secagg"

    def await_stage(stage: Stage | str, most: int = MOST_MESSAGE_BYTES) -> bytes:
        return connection.await_answer(f"{path}/{stage}", until=until, most=most, at=at)

    def speak(stage: Stage, message: bytes) -> None:
        connection.insist("POST", f"{path}/{stage}", message, until=until, at=at)

    terms = _terms(await_stage("session"))
    session = session_of(terms)
    require_safe(session, task, len(values), assumptions)
    state: Any
    message, state = device.advertise(session, terms.index, identity=identity, entropy=os.urandom)
    speak("advertise", message)
    vouched = _each_identity_once(identity)
    message, state = device.share(state, await_stage("advertise"), vouched=vouched, entropy=os.urandom)
    speak("share", message)
    message, state = device.mask(state, await_stage("share"), values)
    before_sending()
    speak("mask", message)
    message, state = device.agree(state, await_stage("mask"))
    speak("agree", message)
    message, state = device.reveal(state, await_stage("agree"))
    speak("reveal", message)


def session_of(terms: SessionTerms) -> Session:
    """The session that the terms describe; ProtocolError if they describe none."""
    return Session(
        session_id=bytes.fromhex(terms.session_id),
        graph_seed=bytes.fromhex(terms.graph_seed),
        devices=terms.devices,
        neighbours=terms.neighbours,
        threshold=terms.threshold,
        minimum=terms.minimum,
        dimension=terms.dimension,
        bits=terms.bits,
    )


def require_safe(session: Session, task: Task, width: int, assumptions: SecAggAssumptions) -> None:
    """FleetError or ProtocolError unless the session fits the task and exposes no more than the owner bears.

    A session reaches a device through the server; a sum is of at least as many devices as the task says reports make a round.
    """
    if task.secagg is None or (session.dimension, session.bits) != (width, task.secagg.bits):
        raise FleetError("Expected a session for the task's vectors, got one of another width.")
    parameters.check(
        session,
        # Masking ends with the last vector that is wanted: all beyond the minimum may be lost, whatever the owner assumes.
        dropout=max(assumptions.dropout, 1 - session.minimum / session.devices),
        corruption=assumptions.corruption,
        server=assumptions.server,
        exposure=assumptions.exposure,
        minimum=max(assumptions.minimum, task.report_goal),
    )


def _terms(content: bytes) -> SessionTerms:
    try:
        return SessionTerms.model_validate_json(content)
    except ValidationError:
        raise FleetError("Expected the terms of a session of secure aggregation, got something else.") from None


def _each_identity_once(own: bytes) -> device.Vouched:
    """The server's enrolment vouches for identities; that nobody stands in two places, a device sees for itself."""
    seen = {keys.identity_public(own)}

    def vouched(index: int, identity: bytes) -> bool:
        first = identity not in seen
        seen.add(identity)
        return first

    return vouched
