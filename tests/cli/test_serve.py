"""`tacit serve` as a person meets it: mistakes in one sentence, before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Tacit, everything
from tests.support.fleet.crowd import fleet_recipe


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "--role all needs a recipe."),
        (("fleet.toml", "--role", "selectr"), "Expected --role all, selector, aggregator, coordinator, got 'selectr'."),
        (("tiny.toml",), "--role all needs a recipe with a [fleet] section."),
        (("fleet.toml", "--set", "fleet.deadline_s=0"), "Expected fleet.deadline_s > 0, got 0."),
        (
            ("--role", "aggregator"),
            "--role aggregator needs --database and --secret, which the processes share.",
        ),
        (
            ("fleet.toml", "--http", "--host", "0.0.0.0"),
            "Expected --http only with a loopback --host such as 127.0.0.1, got 0.0.0.0.",
        ),
        (
            ("fleet.toml", "--certificate", "none.pem", "--key", "none.pem"),
            "Expected a certificate in none.pem and its key, without a passphrase, in none.pem: TLS cannot load them.",
        ),
        (("fleet.toml", "--budget-epsilon", "4"), "Expected a delta beside epsilon, such as 1e-6, got none."),
        (("fleet.toml", "--budget-delta", "1e-6"), "Expected either epsilon with delta, or rho, as the budget."),
        (("fleet.toml", "--budget-rho", "0"), "Expected rho > 0, got 0.0."),
        (
            ("--role", "selector", "--database", "x", "--secret", "s", "--budget-rho", "1"),
            "--role selector takes no budget: the coordinator sets it.",
        ),
        (
            ("fleet.toml", "--host", "0.0.0.0"),
            "--host 0.0.0.0 needs --address, the address that devices use.",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tacit: Tacit, here: Path, arguments: tuple[str, ...], sentence: str) -> None:
    (here / "fleet.toml").write_text(fleet_recipe().to_toml())
    before = everything(here)
    answer = tacit("serve", *arguments)
    assert sentence in answer.err
    assert answer.code in (2, 5, 9)
    assert answer.out == ""
    assert everything(here) == before
