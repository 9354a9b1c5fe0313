"""What a run will cost, in words: its rounds, epsilon, about how long they take, and what no model can guess."""

from __future__ import annotations

import math

from tacit.privacy.statement.wording import epsilon_text
from tacit.runs.accuracy import vocabulary_sentence
from tacit.runs.callbacks import RunEstimate


def estimate_in_words(estimate: RunEstimate) -> str:
    """One line for the terminal, and a second one if the vocabulary lacks words of held-out users.

    >>> print(estimate_in_words(RunEstimate(100, 500.0, 3.0449, 1e-05, (), 2.5, 400)))
    Plan: 100 rounds of about 500 users. ε will be 3.05 at δ = 1e-05. They take about 4 minutes on this machine, if every user \
has 400 words (made-up users were timed), and less if users have less.
    """
    rounds = "1 round" if estimate.rounds == 1 else f"{estimate.rounds:,} rounds"
    plan = f"Plan: {rounds} of about {estimate.cohort:,.0f} users. {_privacy(estimate)} {_time(estimate)}".rstrip()
    outside = vocabulary_sentence(estimate.out_of_vocabulary)
    return plan if outside is None else f"{plan}\nVocabulary: {outside}"


def _privacy(estimate: RunEstimate) -> str:
    if math.isinf(estimate.epsilon):
        return f"ε will be infinite, because {'; '.join(estimate.reasons_not_private)}."
    return f"ε will be {epsilon_text(estimate.epsilon)} at δ = {estimate.delta:g}."


def _time(estimate: RunEstimate) -> str:
    if estimate.seconds is None:
        return ""
    who = f"every user has {estimate.words_a_user:,} words"
    verb = "It takes" if estimate.rounds == 1 else "They take"
    return (
        f"{verb} about {in_minutes(estimate.seconds)} on this machine, if {who} (made-up users were timed), and less if users "
        "have less."
    )


def in_minutes(seconds: float) -> str:
    """A duration that nobody takes for exact.

    >>> in_minutes(42), in_minutes(100), in_minutes(60 * 25), in_minutes(3600 * 5), in_minutes(1e8)
    ('42 seconds', '2 minutes', '25 minutes', '5.0 hours', '1,157 days')
    """
    if seconds < 1:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} minutes"
    hours = minutes / 60
    return f"{hours:.1f} hours" if hours < 72 else f"{hours / 24:,.0f} days"
