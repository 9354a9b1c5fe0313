"""Submissions read back, those of other people's logs too, and anything else is refused."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import LedgerError
from tacit.transparency.submission import MOST_HASHES, Submission
from tests.support.witnesses_at_rest import leaves, submission

RECORDS = leaves(*"abcdefg")
# The example of C2SP's tlog-witness.
PUBLISHED = """\
old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=
"""


def test_a_submission_reads_back() -> None:
    made = submission(RECORDS, 3)
    assert len(made.proof) > 1
    assert Submission.parse(made.text()) == made


def test_the_published_example_reads_back() -> None:
    found = Submission.parse(PUBLISHED)
    assert (found.old_size, len(found.proof), found.head.size, len(found.head.signatures)) == (20852014, 4, 20852163, 2)
    assert found.text() == PUBLISHED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("old 2", "old 02"),
        ("old 2", "old -2"),
        ("old 2", "Old 2"),
        ("old 20852014\n", ""),
        ("PlRN", "Pl N"),
        ("PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=", "AAAA"),
        ("\n\nexample", "\nexample"),
        ("\n\n— ", "\n— "),
        ("20852163", "+20852163"),
    ],
)
def test_a_damaged_one_is_refused(before: str, after: str) -> None:
    assert before in PUBLISHED
    with pytest.raises(LedgerError, match=r"old size|signed head"):
        Submission.parse(PUBLISHED.replace(before, after, 1))


def test_a_proof_that_is_too_long_is_refused() -> None:
    line = base64.b64encode(bytes(32)).decode() + "\n"
    _, _, head = PUBLISHED.partition("\n\n")
    assert len(Submission.parse(f"old 1\n{line * MOST_HASHES}\n{head}").proof) == MOST_HASHES
    with pytest.raises(LedgerError):
        Submission.parse(f"old 1\n{line * (MOST_HASHES + 1)}\n{head}")


@given(st.text(max_size=200), st.integers(0, 300))
def test_other_text_is_refused_in_one_sentence(text: str, place: int) -> None:
    for wrong in (text, PUBLISHED[:place] + text + PUBLISHED[place:]):
        with suppress(LedgerError):
            assert Submission.parse(wrong).text() == wrong
