"""Enrolment on the device: exchanges an enrolment token for a device number, once.

The identity key is saved before the token is used, so that a device that was killed in between asks again with the same key.
"""

from __future__ import annotations

from pathlib import Path

import httpx
from pydantic import ValidationError

from tacit.errors import FleetError
from tacit.files import write_atomic
from tacit.fleet.device import examples
from tacit.fleet.device.connection import client_for, refusal_of, require_protected, trusted
from tacit.fleet.device.home import DeviceConfig, Home
from tacit.fleet.device.policy import read_policy
from tacit.fleet.device.signed_files import signature_path
from tacit.fleet.wire import signing
from tacit.fleet.wire.messages import ENROL, Enrolled, EnrolRequest
from tacit.secagg import keys


def enrol(
    folder: Path,
    *,
    server: str,
    token: str,
    data: Path,
    ca: Path | None = None,
    policy: Path | None = None,
    plans: Path | None = None,
    application: str | None = None,
    transport: httpx.BaseTransport | None = None,
) -> DeviceConfig:
    """Make a home in `folder` with the sentences of `data`, and get a number from the server.

    `policy` is the owner's, signed with the key `application`; without one the device has a built-in policy. `plans` is a
    signed registry of plans, if the policy asks for one.
    """
    if (policy is None) != (application is None):
        raise FleetError("Expected a policy together with the public key of the application that signed it.")
    if policy is not None and application is not None:
        read_policy(policy, application)
    config = DeviceConfig(
        server=server.rstrip("/"),
        ca=None if ca is None else str(ca.resolve()),
        application=application,
    )
    require_protected(config.server)
    with client_for(trusted(config.ca), transport) as client, Home.create(folder) as home:
        if (folder / "device.json").exists():
            raise FleetError(f"The device in {folder} is already enrolled.")
        examples.copy_sentences(data, home.examples_path)
        for source, into in ((policy, home.policy_path), (plans, home.registry_path)):
            if source is not None:
                _copy_signed(source, into)
        enrolled = config.model_copy(update={"device": _number(client, config.server, token, home.identity)})
        home.configure(enrolled)
    return enrolled


def _copy_signed(source: Path, into: Path) -> None:
    for each, copy in ((source, into), (signature_path(source), signature_path(into))):
        try:
            write_atomic(copy, each.read_bytes(), mode=0o600)
        except FileNotFoundError:
            raise FleetError(f"The file {each} is missing.") from None


def _number(client: httpx.Client, server: str, token: str, identity: bytes) -> int:
    try:
        request = EnrolRequest(
            token=token,
            identity=keys.identity_public(identity).hex(),
            proof=signing.enrolment_proof(identity, token).hex(),
        )
    except ValidationError:
        raise FleetError(f"Expected an enrolment token of 16 to 128 characters, got {len(token)}.") from None
    try:
        answer = client.post(
            server + ENROL,
            content=request.model_dump_json().encode(),
            headers={"content-type": "application/json"},
        )
    except httpx.HTTPError as error:
        raise FleetError(
            f"The server {server} cannot be reached ({type(error).__name__}).",
            hint="Check that tacit serve is running there, and give its certificate with --ca.",
        ) from None
    if answer.status_code >= 300:
        raise refusal_of(answer.status_code, answer.content, answer.headers)
    try:
        return Enrolled.model_validate_json(answer.content).device
    except ValidationError:
        raise FleetError("The server's answer to the enrolment is not valid.") from None
