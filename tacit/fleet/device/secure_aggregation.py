"""A contribution as integers, and the device's stages of secure aggregation.

The integers are those of `tacit.simulation.secure_gate`, in NumPy, with randomness from the operating system: the weighted
update divided by the round's clip norm; then, if weights count, the weight in units of 1/element_clip; then, with adaptive
clipping, the bit as ±1. If devices add the noise, each integer includes the device's share of it.

A protocol state is used once and is kept in memory alone: a device that is killed leaves the round. A message that was lost is
sent again as the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.device.clipping import Contribution
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.policy import SecAggAssumptions
from tacit.fleet.device.vouching import vouched_once
from tacit.fleet.wire.messages import ROUNDS, Assignment, Stage
from tacit.fleet.wire.task import DeviceTask, SecAggTerms, SessionTerms, session_id_of
from tacit.privacy.gate.rounding import HEADROOM
from tacit.secagg import device, parameters
from tacit.secagg.discrete_gaussian import Bits, sampled
from tacit.secagg.encoding import encoded
from tacit.secagg.hadamard import public_signs
from tacit.secagg.session import Session

# Enough for the keys, shares or witnesses of a few thousand neighbours.
MOST_MESSAGE_BYTES = 1 << 24
# The largest session whose parameters a device checks, which takes a while for more.
MOST_DEVICES = 20_000


def integers_of(contribution: Contribution, terms: SecAggTerms, assignment: Assignment) -> NDArray[np.uint32]:
    """The vector that the device masks. Call it once a round: every call draws new randomness."""
    if assignment.signs_seed is None:
        raise FleetError("The server sent no signs_seed with a round of secure aggregation.")
    encoding = terms.encoding()
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


def take_part(
    connection: Connection,
    task: DeviceTask,
    assignment: Assignment,
    values: NDArray[np.uint32],
    *,
    identity: bytes,
    certificate: bytes,
    assumptions: SecAggAssumptions,
    until: float,
    on_session: Callable[[Session], None],
    before_sending: Callable[[Session, bytes], None],
    after_sending: Callable[[bytes], None],
) -> None:
    """All stages of a round. `on_session` is called once, before anything is sent, with a session that was found safe, and
    `before_sending` once, just before the masked vector is sent, with the bytes; both write to disk. `after_sending` gets
    the server's answer to them.

    FleetError or ProtocolError if the server refuses, or sends a message that an honest server would not send. The device has
    then left the round.
    """
    at, path = connection.permitted(assignment.upload_to), f"{ROUNDS}/{assignment.round_id}/secagg"

    def await_stage(stage: Stage | str, most: int = MOST_MESSAGE_BYTES) -> bytes:
        return connection.await_answer(f"{path}/{stage}", until=until, most=most, at=at)

    def send(stage: Stage, message: bytes) -> bytes:
        return connection.insist("POST", f"{path}/{stage}", message, until=until, at=at)

    terms = _terms(await_stage("session"))
    session = terms.session()
    if session.session_id != session_id_of(assignment):
        raise ProtocolError(
            "The session of secure aggregation is for another model, clip norm or rotation than this device was given."
        )
    require_safe(session, task, len(values), assumptions)
    on_session(session)
    state: Any
    message, state = device.advertise(
        session, terms.index, identity=identity, entropy=os.urandom, certificate=certificate
    )
    send("advertise", message)
    vouched = vouched_once(identity, assumptions.vouchers)
    message, state = device.share(state, await_stage("advertise"), vouched=vouched, entropy=os.urandom)
    send("share", message)
    message, state = device.mask(state, await_stage("share"), values)
    before_sending(session, message)
    after_sending(send("mask", message))
    message, state = device.agree(state, await_stage("mask"))
    send("agree", message)
    message, state = device.reveal(state, await_stage("agree"))
    send("reveal", message)


def require_safe(session: Session, task: DeviceTask, width: int, assumptions: SecAggAssumptions) -> None:
    """FleetError or ProtocolError unless the session fits the task and exposes no more than the owner accepts.

    The session comes from the server, so the device checks it. Its minimum must be at least the task's report goal.
    """
    if session.devices > MOST_DEVICES:
        raise FleetError(f"Expected a session of at most {MOST_DEVICES} devices, got {session.devices}.")
    if task.secagg is None or (session.dimension, session.bits) != (width, task.secagg.bits):
        raise FleetError(
            f"The session's vectors do not fit the task: got {session.dimension} entries of {session.bits} bits."
        )
    most = task.secagg.encoding().largest_cohort()
    if task.secagg.local_variance == 0 and most < session.minimum:
        # Noise that the server adds comes too late for an entry that has wrapped around.
        raise FleetError(
            f"Expected entries that at least {session.minimum} devices can add up without wrapping around, got entries for "
            f"{most}."
        )
    parameters.check(
        session,
        # Masking ends when the goal is reached: all devices beyond the minimum may be lost, whatever the owner assumes.
        dropout=max(assumptions.dropout, 1 - session.minimum / session.devices),
        corruption=assumptions.corruption,
        server=assumptions.server,
        exposure=assumptions.exposure,
        minimum=max(assumptions.minimum, task.report_goal),
        steered=True,  # the server draws the ring
    )


def _terms(content: bytes) -> SessionTerms:
    try:
        return SessionTerms.model_validate_json(content)
    except ValidationError:
        raise FleetError("The server's session terms are not valid.") from None
