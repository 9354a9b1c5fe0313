"""What `tacit compare` assumes of a keyboard, as the page needs it: one definition for both."""

from __future__ import annotations

from pydantic import BaseModel


class KeyboardRules(BaseModel):
    """The layout, how far taps are off, and when a phrase is shown (`tacit/keyboard/taps.py` and `replay.py`)."""

    rows: list[tuple[str, float]]
    key_height: float
    spread: float
    reach: float
    language_weight: float
    confidence: float
    longest_phrase: int


def keyboard_rules() -> KeyboardRules:
    """The rules of `tacit compare`."""
    # Imported here: it imports JAX, which no page of a board should wait for.
    from tacit.keyboard.replay import TypingHabits
    from tacit.keyboard.taps import KEY_HEIGHT, ROWS, Typist

    typist, habits = Typist(), TypingHabits()
    return KeyboardRules(
        rows=list(ROWS),
        key_height=KEY_HEIGHT,
        spread=typist.spread,
        reach=typist.reach,
        language_weight=typist.language_weight,
        confidence=habits.confidence,
        longest_phrase=habits.longest_phrase,
    )
