"""How long the keyboard's page takes to answer a key, in Chromium: one JSON line a case.

    python benchmarks/keyboard_page.py [--keys 600]

A model of fresh parameters and 10,000 made-up words is typed on with taps that land around the keys, spaces and suggestions.
`answered` is from the tap until the new suggestions, the grey phrase and the correction are in the page; `painted` is until
the browser has drawn them, which waits for the next frame of the screen (up to 17 ms at 60 frames a second). All in
milliseconds by the clock; the first 30 keys are left out, because the browser compiles meanwhile. `processor_ms_a_key` is the
processor's time that the page's main thread needs for a key, drawing and the other models' cards included; it waits for nobody,
so on a busy machine it is the page's own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacit.data.users import RESERVED
from tacit.models import word_lm
from tacit.models.word_lm import parameter_count
from tacit.web.app import page as serve_page
from tacit.web.app import web_app
from tacit.web.keyboard.rules import keyboard_rules
from tacit.web.settings import BoardSettings

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.boards import browser as open_browser
from tests.support.served import served
from tests.support.typed_runs import file_of, offer_of

CASES = {
    "benchmark": ("benchmark",),
    "production": ("production",),
    "four side by side": ("benchmark",) * 3 + ("production",),
}
WORDS, WARM_UP = 10_000, 30

# Types in the page: a tap near each letter's key, a space after a word, every fifth word a suggestion. No wait between keys but
# for the frame that shows the answer.
TYPE = """async ([words, seed]) => {
  let state = seed;
  const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  const tap = (button) => {
    const box = button.getBoundingClientRect();
    const at = (from, size) => from + size * (0.5 + 0.35 * (random() + random() + random() - 1.5));
    const about = { bubbles: true, cancelable: true, button: 0, pointerType: 'touch' };
    const where = { clientX: at(box.left, box.width), clientY: at(box.top, box.height) };
    button.dispatchEvent(new PointerEvent('pointerdown', { ...about, ...where }));
  };
  const key = (name) => document.querySelector(`.letter-key[aria-label='${name}']`);
  const answered = [], painted = [];
  const press = async (act) => {
    const begun = performance.now();
    act();
    answered.push(performance.now() - begun);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    painted.push(performance.now() - begun);
  };
  for (const [number, word] of words.entries()) {
    if (number % 5 === 4) { await press(() => document.querySelector('.slot').click()); continue; }
    for (const letter of word) await press(() => tap(key(letter)));
    await press(() => tap(key(number % 12 === 11 ? 'Send, to nobody' : 'Space')));
  }
  return { answered, painted };
}"""


def made_up_words(count: int) -> list[str]:
    """Different words of two to nine letters."""
    generator, found = np.random.default_rng(0), dict.fromkeys(["see"])
    while len(found) < count:
        letters = generator.choice(list("eetaoinshrdlucmfwypvbgkqjxz"), generator.integers(2, 10))
        found["".join(letters)] = None
    return list(found)


def measured(times: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum."""
    kept = times[WARM_UP:]
    return {name: round(float(np.percentile(kept, at)), 2) for name, at in (("p50", 50), ("p95", 95), ("max", 100))}


def busy(clock: Any) -> float:
    """How many seconds of the processor the page's main thread has used."""
    metrics = {each["name"]: each["value"] for each in clock.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def case(browser: Any, address: str, names: tuple[str, ...], keys: int) -> dict[str, Any]:
    """Open a page over fresh models of these presets, and type."""
    words = [*RESERVED, *made_up_words(WORDS - len(RESERVED))]
    models = {
        f"{name} {number}": word_lm.build(replace(word_lm.preset(name), vocabulary=WORDS), key=jax.random.key(number))
        for number, name in enumerate(names)
    }
    files = {name.replace(" ", "-"): file_of(model, words) for name, model in models.items()}
    page = browser.new_page(viewport={"width": 390, "height": 844})
    offer = offer_of(files, keyboard_rules().model_dump())
    page.route("**/api/keyboard?*", lambda route: route.fulfill(body=offer, content_type="application/json"))
    page.route(
        "**/api/keyboard/models/*", lambda route: route.fulfill(body=files[route.request.url.rsplit("/", 1)[-1]])
    )
    page.goto(address)
    page.wait_for_selector("#bytes-sent")
    typed = np.random.default_rng(1).choice(words[len(RESERVED) :], keys // 6).tolist()
    clock = page.context.new_cdp_session(page)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = busy(clock)
    found = page.evaluate(TYPE, [typed, 7])
    worked = busy(clock) - before
    sent = page.locator("#bytes-sent").inner_text()
    page.close()
    return {
        "parameters": [parameter_count(model) for model in models.values()],
        "words": WORDS,
        "keys": len(found["answered"]) - WARM_UP,
        "answered_ms": measured(found["answered"]),
        "painted_ms": measured(found["painted"]),
        "processor_ms_a_key": round(1_000 * worked / len(found["answered"]), 2),
        "sent": sent,
    }


def main() -> None:
    """Print one line a case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=600, help="about how many keys to press in each case")
    keys = parser.parse_args().keys
    app = web_app(BoardSettings(), [], title="Keyboard")
    serve_page(app, "/", "keyboard.html")
    with open_browser() as browser, served(app) as address:
        for name, presets in CASES.items():
            load = round(os.getloadavg()[0], 1)
            found = case(browser, address, presets, keys)
            print(json.dumps({"case": name, **found, "cores": os.cpu_count(), "load_before": load}), flush=True)


if __name__ == "__main__":
    main()
