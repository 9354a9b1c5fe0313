"""`tacit account`: what a training run would cost its users, or has cost them. Computes, and touches no data.

fedavg, ftrl             settings → epsilon                       settings.py
calibrate fedavg, ftrl   epsilon or rho → the setting left out    calibrate.py
zcdp, group, conventions conversions                              conversions.py
run, compose, odometer   ledgers → epsilon                        ledgers.py, odometer.py, evidence.py
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module

import typer

from tacit.cli.commands import Commands

# The commands, in the order of the help, and where each is.
COMMANDS = {
    "fedavg": "settings:fedavg",
    "ftrl": "settings:ftrl",
    "calibrate": "calibrate:app",
    "zcdp": "conversions:zcdp",
    "group": "conversions:group",
    "conventions": "conversions:conventions",
    "run": "ledgers:run",
    "compose": "ledgers:compose",
    "odometer": "odometer:odometer",
}


def build(words: Collection[str]) -> Commands:
    """The group with the commands that are among these words; with all of them, as its help shows them, if none is."""
    app = Commands(help="Compute epsilon, delta and rho, of settings or of the ledgers of runs.", no_args_is_help=True)
    named = {name: path for name, path in COMMANDS.items() if name in words} or COMMANDS
    for name, path in named.items():
        module, _, attribute = path.partition(":")
        found = getattr(import_module(f"{__name__}.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app
