"""Devices that are lost, slow, broken or lying, against real server processes over a real PostgreSQL.

What they do costs their own place at most: the round goes on with the others, and nothing of theirs is counted twice.
"""

from __future__ import annotations

import socket
import struct
from functools import partial
from math import inf
from pathlib import Path

import httpx
import numpy as np

from tacit.fleet.rounds.secure_aggregation import STAGES
from tacit.fleet.wire.messages import ROUNDS, Assignment
from tacit.fleet.wire.reports import pack_report
from tests.support.fleet.crowd import fleet_recipe, vector_of, wait_for
from tests.support.fleet.phones import Phone
from tests.support.fleet.processes import Fleet
from tests.support.fleet.soundness import cohorts, require_sound


class Upload:
    """A report on its way, byte by byte, to the process itself."""

    def __init__(
        self, fleet: Fleet, phone: Phone, place: Assignment, body: bytes, *, states: int | None = None
    ) -> None:
        path = f"{ROUNDS}/{place.round_id}/report"
        headers = {"host": "here", "content-length": str(len(body) if states is None else states)}
        lines = [f"{name}: {value}" for name, value in (headers | phone.person.headers("PUT", path, body)).items()]
        self._socket = socket.create_connection(("127.0.0.1", fleet.doorway.behind), timeout=120)
        self._head = "\r\n".join([f"PUT {path} HTTP/1.1", *lines, "", ""]).encode()
        self.send(self._head)

    def send(self, part: bytes) -> None:
        self._socket.sendall(part)

    def status(self) -> int:
        """What the server says; the connection is then closed."""
        with self._socket, self._socket.makefile("rb") as answer:
            return int(answer.readline().split()[1])

    def cut(self) -> None:
        self._socket.close()


def with_places(fleet: Fleet, count: int) -> list[tuple[Phone, Assignment]]:
    """So many devices that have a place in the open round, and have not reported."""
    found: dict[int, tuple[Phone, Assignment]] = {}

    def enough() -> bool:
        for phone in fleet.phones.all:
            if phone.number not in found and (place := fleet.phones.check_in(phone)) is not None:
                found[phone.number] = phone, place
            if len(found) == count:
                return True
        return False

    wait_for(enough)
    return list(found.values())


def broken(place: Assignment, good: bytes) -> dict[str, tuple[bytes, int]]:
    """Reports that are none, and how each is refused."""
    size = (len(good) - len(pack_report(place.round_id, 1.0, 0, np.zeros(0, np.float32)))) // 4
    fine = vector_of(1, 0, size, 0.1)

    def report(update: np.ndarray, weight: float = 1.0, round_id: str = place.round_id) -> bytes:
        return pack_report(round_id, weight, 0, update)

    holed = fine.copy()
    holed[3] = np.nan
    endless = fine.copy()
    endless[0] = np.inf
    another_shape = bytearray(good)
    struct.pack_into("<Q", another_shape, len(good) - 4 * size - 8, size + 1)
    return {
        "nan": (report(holed), 422),
        "inf": (report(endless), 422),
        "too few numbers": (report(fine[:-1]), 422),
        "too many numbers": (report(np.append(fine, np.float32(0))), 413),
        "another shape": (bytes(another_shape), 422),
        "longer than the clip": (report(vector_of(1, 0, size, 1.01 * place.clip_norm)), 422),
        "a weight above one": (report(fine, weight=1.5), 422),
        "of another round": (report(fine, round_id="0" * 32), 422),
        "cut short, and says so": (good[: len(good) // 2], 422),
        "nothing": (b"", 422),
    }


def test_uploads_that_are_wrong_late_or_repeated_count_for_nothing(postgres_url: str, tmp_path: Path) -> None:
    # Rounds end with the goal's last report; a loaded machine has time for all that comes before it.
    recipe = fleet_recipe(privacy={"max_participation": 9}, fleet={"deadline_s": 1200.0})
    with Fleet(tmp_path, postgres_url, recipe) as fleet:
        phones = fleet.phones
        (liar, at), (lost, lost_at), (slow, slow_at), *honest = with_places(fleet, 6)
        stranger = next(phone for phone in phones.all if phone not in [liar, lost, slow, *(each for each, _ in honest)])
        assert phones.send(stranger, at, phones.report_of(stranger, at)).status_code == 403

        good = phones.report_of(liar, at)
        refused = {name: phones.send(liar, at, body).status_code for name, (body, _) in broken(at, good).items()}
        assert refused == {name: status for name, (_, status) in broken(at, good).items()}
        huge = Upload(fleet, liar, at, good, states=1 << 40)
        assert huge.status() == 413  # before a byte of it was sent
        cut = Upload(fleet, liar, at, good)
        cut.send(good[:-1])
        cut.cut()
        assert reported(fleet) == 0

        path = f"{ROUNDS}/{at.round_id}/report"
        signed = liar.person.headers("PUT", path, good)
        assert httpx.put(at.upload_to + path, content=good, headers=signed).json()["repeated"] is False
        assert httpx.put(at.upload_to + path, content=good, headers=signed).status_code == 409  # replayed by a listener
        assert phones.send(liar, at, good).json()["repeated"] is True
        other = bytearray(good)
        other[-1] ^= 0x80  # one sign
        assert phones.send(liar, at, bytes(other)).status_code == 409
        assert reported(fleet) == 1

        late = phones.report_of(slow, slow_at)
        upload = Upload(fleet, slow, slow_at, late)
        upload.send(late[:-1])
        for phone, place in honest:
            assert phones.send(phone, place, phones.report_of(phone, place)).status_code == 200
        wait_for(lambda: fleet.committed() == 1)
        upload.send(late[-1:])
        assert upload.status() == 410
        assert phones.send(lost, lost_at, phones.report_of(lost, lost_at)).status_code == 410  # back after the round

        # A device without a timer asks at once, and again, for the round after its own.
        wait_for(lambda: is_open(fleet, 1))
        for _ in range(5):
            assert phones.check_in(liar) is None
        (_, second), *_ = with_places(fleet, 1)
        assert second.round == 1
        assert phones.send(liar, second, phones.report_of(liar, second)).status_code == 403
        assert fleet.ended() == 0
        require_sound(fleet.engine, recipe, fleet.run, often=9)
    assert set(cohorts(fleet.run)[0][2]) == {liar.number, *(phone.number for phone, _ in honest)}
    assert "Traceback" not in fleet.logs()


def test_a_device_that_is_lost_does_not_stop_a_round_of_secure_aggregation(postgres_url: str, tmp_path: Path) -> None:
    recipe = fleet_recipe(
        privacy={"secagg": {"bits": 24}}, fleet={"selection_s": 600.0, "stage_s": 10.0, "dropout": 0.4}
    )
    with Fleet(tmp_path, postgres_url, recipe) as fleet:
        phones, lost = fleet.phones, list[Phone]()
        for round, words in enumerate([0, 2, 3]):  # nothing; up to its shares; up to its vector
            chosen = phones.all[6 * round : 6 * round + 6]  # as many as there are places
            silent, before = chosen[0], max(words - 1, 0)
            silent.stages = words
            lost.append(silent)
            # Its last words come first in their stage, or the others could be enough for the goal without it; and one that
            # the goal leaves out does not come again, for a place in the round after.
            phones.go(partial(have_said, chosen, before), limit=(STAGES[before], 0), among=chosen)
            for phone in chosen:
                phone.back_at = inf
            phones.go(partial(have_said, [silent], words), among=[silent])
            phones.go(lambda want=round + 1: fleet.committed() == want, among=chosen)
            assert have_said([silent], words)
        wait_for(fleet.is_over)
        require_sound(fleet.engine, recipe, fleet.run, atol=1e-5)
    came = [set(users) for _, _, users in cohorts(fleet.run)]
    assert [device.number in users for device, users in zip(lost, came, strict=True)] == [False, False, True]


def have_said(phones: list[Phone], stages: int) -> bool:
    """Whether each has a part in a round of secure aggregation, and has got as far as this."""
    return all(phone.part is not None and phone.part.said == stages for phone in phones)


def reported(fleet: Fleet) -> int:
    row = fleet.latest()
    assert row is not None
    return int(row.reported)


def is_open(fleet: Fleet, round: int) -> bool:
    row = fleet.latest()
    return row is not None and (row.round, row.state) == (round, "open")
