"""A server in the test's own process: the paths of `fleet.wire.messages`, answered from memory, and every way to misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tacit.fleet.device.agent import Agent
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.enrolment import enrol
from tacit.fleet.device.home import Home
from tacit.fleet.device.policy import POLICY_LABEL, OwnerPolicy
from tacit.fleet.device.signed_files import sign_file
from tacit.fleet.rounds import task_compiler
from tacit.fleet.wire import messages, signing
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.public_log import LEAVE, LOG
from tacit.secagg import keys, masks, server
from tacit.secagg.session import Session
from tests.support.fleet.fake_log import FakeLog

TOKEN = "a token of enough length"
BASE = "https://fleet.test"
COME_BACK = 30.0
# The application that ships the owner's policy.
APPLICATION_KEY = bytes(range(32))
APPLICATION = keys.identity_public(APPLICATION_KEY).hex()


class Killed(BaseException):
    """The device's process ends here."""


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


class FakeServer:
    """Honest unless told otherwise: `before` and `after` may answer, raise, or look at a request."""

    def __init__(self, prepared: task_compiler.Prepared | None = None, model: Any = None) -> None:
        self.blobs: dict[str, bytes] = dict(prepared.blobs) if prepared else {}
        self.checkpoint = self.add_blob(task_compiler.checkpoint_bytes(model)) if model is not None else ""
        self.prepared = prepared
        self.devices: dict[int, bytes] = {}
        self.counters: dict[int, int] = {}
        self.offers: list[messages.Assignment] = []
        self.check_ins: list[messages.CheckInRequest] = []
        self.reports: dict[str, list[bytes]] = {}
        self.requests: list[str] = []
        self.secagg: FakeSecAgg | None = None
        self.log: FakeLog | None = None
        self.places: dict[str, messages.Assignment] = {}
        self.uncounted: tuple[str, ...] = ()
        self.before: Callable[[httpx.Request], httpx.Response | None] = lambda request: None
        self.after: Callable[[httpx.Request], httpx.Response | None] = lambda request: None
        self._lock = threading.RLock()

    def add_blob(self, content: bytes) -> str:
        self.blobs[sha256_of(content)] = content
        return sha256_of(content)

    def offer(self, round: int = 0, **changes: Any) -> messages.Assignment:
        """Have a place ready for the next device that checks in."""
        assert self.prepared is not None
        fields: dict[str, Any] = {
            "round_id": f"{round:032x}",
            "task": self.prepared.name,
            "round": round,
            "checkpoint": self.checkpoint,
            "upload_to": BASE,
            "clip_norm": 0.3,
            "seconds_left": 600.0,
            **changes,
        }
        self.offers.append(messages.Assignment(**fields))
        self.places[self.offers[-1].round_id] = self.offers[-1]
        return self.offers[-1]

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        request.read()
        with self._lock:
            self.requests.append(f"{request.method} {request.url.path}")
            early = self.before(request)
            if early is not None:
                return early
            answer = self._route(request)
            return self.after(request) or answer

    def _route(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, request.content
        if path == messages.ENROL:
            asked = messages.EnrolRequest.model_validate_json(body)
            public = bytes.fromhex(asked.identity)
            if asked.token != TOKEN or not signing.is_enrolment(public, asked.token, bytes.fromhex(asked.proof)):
                return refused(401, "Expected a valid token, got another.")
            known = [number for number, key in self.devices.items() if key == public]
            number = known[0] if known else len(self.devices)
            self.devices[number] = public
            return said(messages.Enrolled(device=number))
        found = signing.credentials_of(request.headers)
        public = self.devices.get(found.device, b"")
        if not (signing.is_signed(public, found, request.method, path) and signing.is_body(found, body)):
            return refused(401, "Expected a request signed by an enrolled device, got another.")
        last = self.counters.get(found.device, 0)
        if found.counter <= last:
            return refused(409, "Expected a higher counter.", headers={signing.COUNTER: str(last)})
        self.counters[found.device] = found.counter
        if path == messages.CHECK_IN:
            self.check_ins.append(messages.CheckInRequest.model_validate_json(body))
            offer = self.offers.pop(0) if self.offers else None
            answer = messages.CheckInAnswer(assignment=offer, come_back_s=COME_BACK, uncounted=self.uncounted)
            return httpx.Response(200, content=messages.padded(answer))
        if path.startswith(messages.BLOBS):
            return httpx.Response(200, content=self.blobs[path.rsplit("/", 1)[1]])
        if path.endswith("/report"):
            seen = self.reports.setdefault(path.split("/")[3], [])
            seen.append(body)
            if self.log is not None:
                place = self.places[path.split("/")[3]]
                return said(self.log.received(place, found.device, body, repeated=len(seen) > 1))
            return said(messages.Received(repeated=len(seen) > 1))
        if path.startswith(LOG) or path == LEAVE:
            answer = None if self.log is None else self.log.answer(path, found.device)
            return refused(404, "No such path.") if answer is None else said(answer)
        assert self.secagg is not None
        stage = path.rsplit("/", 1)[1]
        if request.method == "POST":
            self.secagg.receive(stage, found.device, body)
            return said(messages.Received())
        content = self.secagg.fetch(stage, found.device)
        return httpx.Response(200, content=content) if content else httpx.Response(204)


class FakeSecAgg:
    """One session among the devices 0, 1, …; a stage closes when all have spoken. `sum` is what comes out."""

    STAGES = ("advertise", "share", "mask", "agree", "reveal")

    def __init__(self, session: Session) -> None:
        self.session, self.terms = session, {}
        self._state: Any = server.opened(session)
        self._out: dict[str, dict[int, bytes]] = {}
        self._said: dict[str, set[int]] = {stage: set() for stage in self.STAGES}
        self.sum: masks.Words | None = None

    def receive(self, stage: str, device: int, body: bytes) -> None:
        receive = {
            "advertise": server.receive_advertisement,
            "share": server.receive_shares,
            "mask": server.receive_masked,
            "agree": server.receive_agreement,
            "reveal": server.receive_reveal,
        }[stage]
        self._state = receive(self._state, device, body)
        self._said[stage].add(device)
        if len(self._said[stage]) < self.session.devices:
            return
        if stage == "reveal":
            self.sum = masks.with_masks(self._state.total, server.recovered(self._state).masks, self.session.bits)
            return
        close = {
            "advertise": server.close_advertising,
            "share": server.close_sharing,
            "mask": server.close_masking,
            "agree": server.close_agreeing,
        }[stage]
        self._out[stage], self._state = close(self._state)

    def fetch(self, stage: str, device: int) -> bytes | None:
        if stage == "session":
            session = self.session
            terms = {
                "session_id": session.session_id.hex(),
                "graph_seed": session.graph_seed.hex(),
                "devices": session.devices,
                "neighbours": session.neighbours,
                "threshold": session.threshold,
                "minimum": session.minimum,
                "dimension": session.dimension,
                "bits": session.bits,
                "index": device,
                **self.terms,
            }
            return json.dumps(terms).encode()
        return self._out.get(stage, {}).get(device)


def said(message: messages.Message) -> httpx.Response:
    return httpx.Response(200, content=message.model_dump_json())


def refused(status: int, detail: str, *, again: bool = False, headers: dict[str, str] | None = None) -> httpx.Response:
    content = messages.Refused(detail=detail, again=again).model_dump_json()
    return httpx.Response(status, content=content, headers=headers)


def enrolled(folder: Path, fake: FakeServer, sentences: list[str], policy: OwnerPolicy | None = None) -> Path:
    """A device's home with these sentences, in a folder of its own; its policy permits small tests, or is the given one."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "typed.txt"
    source.write_text("\n".join(sentences), encoding="utf-8")
    enrol(
        folder / "home",
        server=BASE,
        token=TOKEN,
        data=source,
        policy=signed_policy(folder / "policy.json", policy or OwnerPolicy.for_trying()),
        application=APPLICATION,
        transport=fake.transport,
    )
    return folder / "home"


def signed_policy(path: Path, policy: OwnerPolicy) -> Path:
    """The policy in this file, signed by the application."""
    path.write_text(policy.model_dump_json())
    sign_file(path, APPLICATION_KEY, POLICY_LABEL)
    return path


class Running:
    """A device's process: an agent with its home open. Leaving it, even killed, gives the home back."""

    def __init__(self, home: Path, fake: FakeServer, clock: Clock) -> None:
        self._home = Home.open(home)
        self.said: list[str] = []
        connection = Connection(self._home, transport=fake.transport, sleep=clock.sleep, now=clock.now)
        self.agent = Agent(self._home, connection, on_event=self.said.append)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        self.agent.connection.close()
        self._home.close()
