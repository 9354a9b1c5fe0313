"""The keyboard's page on its own, without a board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fastapi import FastAPI

from tacit.web.app import page, web_app
from tacit.web.keyboard.models import KeyboardModels
from tacit.web.keyboard.routes import keyboard_routes
from tacit.web.reading import in_one_sentence
from tacit.web.settings import BoardSettings


def keyboard_app(settings: BoardSettings, runs: Sequence[Path]) -> FastAPI:
    """The page for these runs; TacitError, before anything is served, if one of them has no model that a page can run."""
    named = {str(number): run for number, run in enumerate(runs)}
    for key, run in named.items():
        with in_one_sentence(run):
            KeyboardModels().of(run, key)
    app = web_app(settings, [keyboard_routes(named)], title="Tacit keyboard")
    page(app, "/", "keyboard.html")
    return app
