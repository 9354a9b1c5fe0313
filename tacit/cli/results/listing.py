"""Every command's result by the command's name, from which docs/json.md is made (`page.py`)."""

from __future__ import annotations

from tacit.cli.results import account, audit, data, fleet, inspect, keyboard, planning, recipes, runs, sweep
from tacit.cli.results.base import Result

RESULTS: dict[str, type[Result]] = {
    "train": runs.TrainResult,
    "init": recipes.InitResult,
    "tune": planning.TuneResult,
    "sweep": sweep.SweepResult,
    "board": runs.BoardResult,
    "serve": runs.ServeResult,
    "predict": keyboard.PredictResult,
    "keyboard": keyboard.KeyboardResult,
    "compare": keyboard.CompareResult,
    "export": keyboard.ExportResult,
    "population": planning.PopulationResult,
    "report": runs.ReportResult,
    "guarantee": runs.GuaranteeResult,
    "plan": planning.PlanResult,
    "account fedavg": account.AccountResult,
    "account ftrl": account.AccountResult,
    "account zcdp": account.ConversionResult,
    "account group": account.ConversionResult,
    "account conventions": account.ConventionsResult,
    "account run": account.AccountRunResult,
    "account compose": account.ComposeResult,
    "account odometer": account.OdometerResult,
    "account calibrate fedavg": account.CalibrateResult,
    "account calibrate ftrl": account.CalibrateResult,
    "audit plant": audit.PlantResult,
    "audit run": audit.AuditRunResult,
    "audit experiment": audit.ExperimentResult,
    "data import": data.StoreResult,
    "data vocabulary": data.VocabularyResult,
    "data show": data.StoreResult,
    "device enrol": fleet.EnrolResult,
    "device policy": fleet.PolicyResult,
    "device run": fleet.DeviceEvent,
    "device sign": fleet.SignResult,
    "device status": fleet.DeviceStatusResult,
    "fleet token": fleet.TokenResult,
    "fleet status": fleet.StatusResult,
    "fleet devices": fleet.DevicesResult,
    "fleet quarantine": fleet.QuarantineResult,
    "fleet revoke": fleet.RevokeResult,
    "fleet round": fleet.RoundResult,
    "fleet operator": fleet.OperatorResult,
    "fleet demo": runs.TrainResult,
    "inspect text": inspect.InspectTextResult,
    "inspect images": inspect.InspectImagesResult,
    "inspect compare": inspect.InspectCompareResult,
    "recipe list": recipes.RecipeListResult,
    "recipe show": recipes.RecipeResult,
    "recipe schema": recipes.SchemaResult,
    "runs": runs.RunsListResult,
    "runs list": runs.RunsListResult,
    "runs show": runs.RunFacts,
    "runs compare": runs.RunsCompareResult,
    "runs plot": runs.PictureResult,
}

# Commands that print several objects, one a line, until they end, and what each object is about.
STREAMS = {
    "predict": "without a text, an object for each line of stdin",
    "device run": "an object for each event",
}
