"""Messages have exact sizes and finite numbers, and all answers to check-ins have the same length."""

import math

import numpy as np
import pytest

from tacit.errors import FleetError
from tacit.fleet.wire.messages import ANSWER_BYTES, Assignment, CheckInAnswer, padded
from tacit.fleet.wire.reports import pack_report, report_bytes, unpack_report

ROUND = "0123456789abcdef" * 2


def report(update=(1.0, -2.0, 3.0), weight=0.5, within=1, round_id=ROUND):
    return pack_report(round_id, weight, within, np.asarray(update, np.float32))


def test_a_report_comes_out_as_it_went_in():
    body = report()
    assert len(body) == report_bytes(3)
    weight, within, update = unpack_report(body, ROUND, 3)
    assert (weight, within, update.tolist()) == (0.5, 1, [1.0, -2.0, 3.0])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (report()[:-1], "bytes"),
        (report() + b"\0", "bytes"),
        (report((1.0, 2.0)), "bytes"),
        (b"XXXX" + report()[4:], "format"),
        (report(round_id="0" * 32), "another"),
        (report((1.0, math.nan, 0.0)), "inf or nan"),
        (report((1.0, math.inf, 0.0)), "inf or nan"),
        (report(weight=1.0001), "weight"),
        (report(weight=math.nan), "weight"),
        (report(within=2), "bit"),
    ],
)
def test_anything_else_is_refused(body, why):
    with pytest.raises(FleetError, match=why):
        unpack_report(body, ROUND, 3)


def test_answers_to_chosen_and_unchosen_devices_have_one_size():
    place = Assignment(
        round_id=ROUND,
        task="a" * 64,
        round=123_456,
        checkpoint="b" * 64,
        upload_to="https://" + "x" * 200,
        clip_norm=0.123456789012345,
        threshold=1.234567890123456,
        signs_seed="c" * 64,
        seconds_left=12345.678901234567,
    )
    sizes = {len(padded(CheckInAnswer(assignment=each, come_back_s=3.0))) for each in (place, None)}
    assert sizes == {ANSWER_BYTES}
    assert (
        CheckInAnswer.model_validate_json(padded(CheckInAnswer(assignment=place, come_back_s=3.0))).assignment == place
    )
