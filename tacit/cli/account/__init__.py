"""`tacit account`: what a training run would cost its users, or has cost them. Computes, and touches no data.

fedavg, ftrl             settings → epsilon                       settings.py
calibrate fedavg, ftrl   epsilon or rho → the setting left out    calibrate.py
zcdp, group, conventions conversions                              conversions.py
run, compose, odometer   ledgers → epsilon                        ledgers.py, odometer.py, evidence.py
"""

from __future__ import annotations

from tacit.cli.account import calibrate, conversions, ledgers, odometer, settings
from tacit.cli.commands import Commands

app = Commands(help="Compute epsilon, delta and rho, of settings or of the ledgers of runs.", no_args_is_help=True)


app.command()(settings.fedavg)
app.command()(settings.ftrl)
app.add_typer(calibrate.app, name="calibrate")
app.command()(conversions.zcdp)
app.command()(conversions.group)
app.command()(conversions.conventions)
app.command()(ledgers.run)
app.command()(ledgers.compose)
app.command()(odometer.odometer)
