"""How long the board takes: the first page over many runs, and from a round to its point on the screen.

    python benchmarks/web.py                  # 1,000 runs, 20 rounds
    python benchmarks/web.py --only first_page      # or live

Prints one JSON line a case. It needs the extra `web`, Playwright and Chromium (CHROMIUM says where, if it is not on the path).

first_page     from asking for the address until the browser has drawn how many runs there are and the first of them, in a new
               tab, with the board just started; `all_lines` is when it has drawn a line for every run, `read` when the last run
               has been read (at first most have not been), `again` when the page shows all after a reload. The page's own
               clock measures them, which begins when the address is asked for.
               `page_processor_s` and `board_processor_s` are the processor's time that the page's main thread and the board's
               process had used when every line was there (the board begins to read runs at once): a busy machine changes
               them little
live           a process writes a round (its intent into the ledger, its figures into the metrics) while the page of the run is
               open; the time until the page shows it
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tacit.privacy.plan import PrivacyPlan
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import EPSILON_SO_FAR, MetricsWriter
from tests.support.boards import browser
from tests.support.made_runs import made_run
from tests.support.planned_ledgers import POISSON, intent_of

GAP_S = 3.0
PATIENCE_MS = 300_000
LINES = "table.runs tr[data-key]"
# Notes in the page when the browser has drawn the first lines, and a line for each run. Whoever asks from outside waits until
# the page has time to answer, and the page is then drawing lines far below the screen.
CLOCK = """count => {
  const shown = {};
  window.shown = shown;
  const note = (name) => requestAnimationFrame(() => setTimeout(() => { shown[name] = performance.now() / 1000; }));
  new MutationObserver((_, observer) => {
    const lines = document.querySelectorAll('table.runs tr[data-key]').length;
    if (lines > 0 && shown.asked === undefined) { shown.asked = true; note('first'); }
    if (lines === count) { observer.disconnect(); note('all'); }
  }).observe(document, {childList: true, subtree: true});
}"""


def finished_runs(root: Path, count: int) -> None:
    """So many finished runs of 20 rounds, each a folder of its own, with their cost in the summary as training leaves it."""
    made = made_run(root / "made", rounds=20)
    made.write_summary((made.summary() or {}) | {"privacy": cost_of(made).stated.as_dict()})
    for number in range(count):
        shutil.copytree(made.path, root / "runs" / f"run-{number:04}")
    shutil.rmtree(made.path)


def write_rounds(path: Path, rounds: int, written: Any) -> None:
    """Write one round after the other into the run; each time is put into `written`."""
    run, plan = RunFolder.open(path), PrivacyPlan(**POISSON)
    first = run.ledger().next_round
    with run.open_ledger() as ledger, MetricsWriter(run.metrics_path) as metrics:
        time.sleep(GAP_S)
        for round in range(first, first + rounds):
            ledger.append(intent_of(plan, round, participation="0" * 64))
            metrics.append({"round": round + 1, "top1": round / 1000, EPSILON_SO_FAR: 1.0})
            written.put((round + 1, time.time()))
            time.sleep(GAP_S)


def board(root: Path) -> tuple[subprocess.Popen[str], str]:
    """A board in a process of its own, and its address."""
    command = [sys.executable, "-m", "tacit", "board", str(root), "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    return process, process.stderr.readline().split("The board is at ")[1].split()[0]


def processor_s(process: int) -> float:
    """The processor's time of a process, in seconds; nan where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def clock_of(tab: Any) -> Any:
    """What counts the processor's time of a tab's main thread, from now on."""
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def main_thread_s(clock: Any) -> float:
    """The processor's time of the main thread, in seconds."""
    metrics = {each["name"]: each["value"] for each in clock.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def drawn(tab: Any) -> dict[str, float]:
    """When the browser had drawn the first lines and all of them, in seconds since their address was asked for."""
    tab.wait_for_function("() => window.shown.all !== undefined")
    found = tab.evaluate("window.shown")
    return {name: round(found[name], 3) for name in ("first", "all")}


def first_page(chrome: Any, root: Path, count: int) -> dict[str, Any]:
    process, address = board(root)
    try:
        tab = chrome.new_page()
        tab.set_default_timeout(PATIENCE_MS)
        tab.add_init_script(f"({CLOCK})({count})")
        before, clock = processor_s(process.pid), clock_of(tab)
        began = time.perf_counter()
        tab.goto(address, wait_until="commit")
        first = drawn(tab)
        board_s, page_s = processor_s(process.pid) - before, main_thread_s(clock)
        tab.get_by_text(f"{count:,} of {count:,} runs").wait_for()
        tab.locator(".state-reading").first.wait_for(state="detached", timeout=600_000)
        read = time.perf_counter() - began
        tab.reload(wait_until="commit")
        found = {
            "case": "first_page",
            "runs": count,
            "seconds": first["first"],
            "all_lines": first["all"],
            "read": round(read, 3),
            "again": drawn(tab)["all"],
            "page_processor_s": round(page_s, 3),
            "board_processor_s": round(board_s, 3),
            "load": os.getloadavg()[0],
        }
        tab.close()
        return found
    finally:
        process.terminate()
        process.wait()


def live(chrome: Any, root: Path, rounds: int) -> dict[str, Any]:
    run = made_run(root / "runs" / "live", outcome=None, rounds=4, planned=4 + rounds)
    process, address = board(root / "runs")
    written = multiprocessing.Queue()
    writer = multiprocessing.Process(target=write_rounds, args=(run.path, rounds, written))
    try:
        tab = chrome.new_page()
        tab.set_default_timeout(PATIENCE_MS)
        tab.goto(address)
        tab.get_by_role("link", name="live", exact=True).click()
        tab.get_by_role("figure").filter(has_text="Accuracy").locator("canvas").wait_for()
        writer.start()
        waits = []
        for _ in range(rounds):
            round, at = written.get()
            # The legend of the chart shows the value of the last point.
            tab.get_by_role("figure").filter(has_text="Accuracy").get_by_text(
                f"{100 * (round - 1) / 1000:.1f}%", exact=True
            ).wait_for()
            waits.append(time.time() - at)
        waits.sort()
        return {"case": "live", "rounds": rounds, "median": statistics.median(waits), "most": waits[-1]} | {
            "load": os.getloadavg()[0]
        }
    finally:
        if writer.pid is not None:
            writer.join()
        process.terminate()
        process.wait()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--only", choices=("first_page", "live"))
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, browser() as chrome:
        root = Path(folder)
        if given.only != "live":
            finished_runs(root, given.runs)
            print(json.dumps(first_page(chrome, root / "runs", given.runs)), flush=True)
            shutil.rmtree(root / "runs")
        if given.only != "first_page":
            print(json.dumps(live(chrome, root, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
