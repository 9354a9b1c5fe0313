"""A small task as a device sees it."""

from __future__ import annotations

from tacit.fleet.wire.task import DeviceTask


def task(**changes):
    fields = {
        "name": "small",
        "kind": "train",
        "plan": "c" * 64,
        "vocabulary": "d" * 64,
        "layout": "windows",
        "length": 4,
        "batch_size": 2,
        "steps": 3,
        "model_shapes": ((2,),),
        "update_shapes": ((2,),),
        "clipping": "flat",
        "example_cap": None,
        "min_separation": 2,
        "max_participation": 3,
        "timer_s": 10.0,
        "report_goal": 4,
    }
    return DeviceTask(**{**fields, **changes})
