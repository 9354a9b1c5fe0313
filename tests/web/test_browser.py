"""The board in a real browser, over real runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.api.run import open_run
from tacit.fleet.administrator import Access
from tacit.runs.attacked import keep_attack
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.report.blocks import Bars, Image, Paragraph, Section, Table
from tacit.runs.report.sections import write_section
from tacit.web.papers import recorded
from tests.support.boards import board_of, browser, until
from tests.support.commands import Tacit
from tests.support.fleet.seen import METRICS, OPEN, status
from tests.support.made_runs import made_run
from tests.support.tiny_recipe import killable

pytestmark = [pytest.mark.process, pytest.mark.slow]
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_MS = 60_000
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture
def tab(chrome: Any) -> Iterator[Any]:
    """A tab of a wide screen. A script error, or a request to anywhere but the board, fails the test."""
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    yield page
    context.close()
    assert not wrong
    assert all(re.match(r"http://127\.0\.0\.1:\d+/|data:image/", address) for address in asked)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs: finished, stopped, without privacy, and damaged."""
    folder = tmp_path_factory.mktemp("made") / "runs"
    made_run(folder / "alpha")
    made_run(folder / "beta", rounds=7, outcome="stopped")
    made_run(folder / "gamma", private=False, rounds=5)
    made_run(folder / "broken").metrics_path.write_bytes(b"{\n{\n")
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    """These runs, for a test to change."""
    return Path(shutil.copytree(made, tmp_path / "runs"))


def names(tab: Any) -> list[str]:
    return tab.locator('table.runs td[data-label="Run"]').all_inner_texts()


def row_of(tab: Any, name: str) -> Any:
    return tab.locator("table.runs tr[data-key]").filter(has=tab.get_by_role("link", name=name, exact=True))


def open_table(tab: Any, address: str, count: int) -> None:
    tab.goto(address)
    tab.get_by_text(f"{count:,} of {count:,} runs").wait_for()
    tab.locator(".state-reading").first.wait_for(state="detached")
    tab.locator('td[data-label="ε"]').filter(has_text="…").first.wait_for(state="detached")  # every cost is known


def test_the_table_sorts_filters_and_groups(tab: Any, runs: Path) -> None:
    with board_of(runs) as address:
        open_table(tab, address, 4)
        tab.get_by_role("button", name="Run", exact=True).click()
        assert names(tab) == ["alpha", "beta", "broken", "gamma"]
        tab.get_by_role("button", name="Run", exact=False).first.press("Enter")  # by keyboard, the other way round
        assert names(tab) == ["gamma", "broken", "beta", "alpha"]
        tab.get_by_role("button", name="Rounds").click()
        assert names(tab)[:3] == ["beta", "gamma", "alpha"]
        tab.get_by_role("button", name="ε", exact=True).click()
        assert names(tab) == ["gamma", "beta", "alpha", "broken"]  # infinite first, not known last
        assert tab.locator('th[aria-sort="descending"]').inner_text().startswith("ε")
        tab.get_by_label("Find").fill("small stop")
        assert names(tab) == ["beta"]
        assert tab.get_by_text("1 of 4 runs").is_visible()
        for asked, found in (
            ("rounds>=5 ε<1", ["beta"]),
            ("accuracy>40%", ["beta"]),
            ("epsilon>1", ["gamma"]),
            ("ε<0.001", []),
        ):
            tab.get_by_label("Find").fill(asked)
            assert names(tab) == found, asked
        tab.get_by_label("Find").fill("")
        tab.get_by_label("State", exact=True).select_option("damaged")
        assert names(tab) == ["broken"]
        tab.get_by_label("State", exact=True).select_option("all")
        tab.get_by_label("Group by", exact=True).select_option("state")
        assert {text.split(" ")[0] for text in tab.locator("tr.group").all_inner_texts()} == {
            "finished",
            "stopped",
            "damaged",
        }
        for by, among in (("ε", "ε up to 1 2"), ("accuracy", "not measured 1")):
            tab.get_by_label("Group by", exact=True).select_option(by)
            assert among in tab.locator("tr.group").all_inner_texts()


def test_a_damaged_run_says_what_is_wrong(tab: Any, runs: Path) -> None:
    with board_of(runs) as address:
        open_table(tab, address, 4)
        assert "are damaged at line 1" in row_of(tab, "broken").inner_text()
        row_of(tab, "broken").get_by_role("link").click()
        tab.get_by_role("alert").first.wait_for()
        assert "are damaged at line 1" in tab.locator("main").inner_text()
        assert tab.locator(".fact", has_text="Privacy").locator("dd").inner_text() == "not known"  # nobody computes it
        tab.goto(f"{address}#/run/{'0' * 16}")
        tab.get_by_text("There is no such run.").wait_for()
        tab.goto(f"{address}#/nothing")
        tab.get_by_text("No such page").wait_for()


def test_chosen_runs_are_compared(tab: Any, runs: Path) -> None:
    with board_of(runs) as address:
        open_table(tab, address, 4)
        tab.get_by_label("Choose alpha").check()
        assert tab.get_by_role("button", name="Compare").is_disabled()
        tab.get_by_label("Choose beta").check()
        tab.get_by_role("button", name="Compare 2").click()
        tab.get_by_role("heading", name="What they cost together").wait_for()
        table = tab.locator("main table").first.inner_text()
        assert re.search(r"run\.rounds\s+4\s+7", table)
        assert re.search(r"state\s+finished\s+stopped", table)
        chart = tab.get_by_role("figure").filter(has_text="First suggestion right")
        assert chart.locator("canvas").is_visible()
        chart.get_by_text("Figures").click()
        assert re.search(r"4\s+30\.0%\s+30\.0%", chart.locator("table").inner_text())
        assert tab.locator("#together dd").first.inner_text().startswith("ε = 0.0")


def test_the_guarantee_and_the_files(tab: Any, runs: Path, tacit: Tacit) -> None:
    stated = tacit("guarantee", runs / "alpha", "--json").object
    with board_of(runs) as address:
        open_table(tab, address, 4)
        row_of(tab, "alpha").get_by_role("link").click()
        tab.get_by_role("link", name="Guarantee").click()
        tab.get_by_text(stated["headline"]).wait_for()
        for part in stated["parts"]:
            assert tab.get_by_role("heading", name=part["title"], exact=True).is_visible()
        tab.emulate_media(media="print")
        assert not tab.locator("header.top").is_visible()
        tab.emulate_media(media="screen")
        assert tab.get_by_text("No witness: nobody else has signed").is_visible()
        open_run(runs / "alpha").certify(runs / "alpha" / "certificate.json")
        tab.reload()
        with tab.expect_download() as download:
            tab.get_by_role("link", name="The certificate").click()
        assert Path(download.value.path()).read_bytes() == (runs / "alpha" / "certificate.json").read_bytes()
        tab.get_by_role("link", name="Recipe and files").click()
        with tab.expect_download() as download:
            tab.get_by_role("link", name="ledger.jsonl").click()
        assert Path(download.value.path()).read_bytes() == (runs / "alpha" / "ledger.jsonl").read_bytes()


def test_the_page_checks_the_chain_itself(tab: Any, runs: Path) -> None:
    ledger = runs / "alpha" / "ledger.jsonl"
    whole = ledger.read_text()
    lines = whole.splitlines(keepends=True)
    forged = lines[2].replace('"noise_multiplier":3.0', '"noise_multiplier":9.0')
    broken = {
        "does not fit": "".join([*lines[:2], forged, *lines[3:]]),
        "has the number": "".join([*lines[:2], *lines[3:]]),
        "is not JSON": whole.replace('{"attempt"', '"attempt"', 1),
    }
    assert forged != lines[2]
    with board_of(runs) as address:
        open_table(tab, address, 4)
        row_of(tab, "alpha").get_by_role("link").click()
        tab.get_by_role("link", name="Ledger").click()
        tab.get_by_text("The chain holds").wait_for()
        assert RunFolder.open(runs / "alpha").ledger().head in tab.locator("main").inner_text()
        for said, text in broken.items():
            ledger.write_text(text)
            tab.reload()
            assert said in tab.get_by_text("The chain is broken").inner_text()


def test_the_planner_shows_what_the_command_prints(tab: Any, tmp_path: Path, tacit: Tacit) -> None:
    options = ["--population", 20_000, "--devices-per-round", 150, "--rounds", 60, "--epsilon", 6, "--delta", 1e-6]
    options += ["--round-minutes", 20, "--mechanism", "tree", "--mechanism", "gaussian"]
    told = tacit("plan", *options, "--json").object
    with board_of(tmp_path) as address:
        tab.goto(f"{address}#/plan")
        for name in ("blt (buffered Toeplitz)", "poisson (sampled users)"):
            tab.get_by_label(name).uncheck()
        for name, value in (
            ("Population", 20_000),
            ("Report goal, at most", 150),
            ("Rounds", 60),
            ("Target ε", 6),
            ("δ", 1e-6),
        ):
            tab.get_by_label(name, exact=True).fill(str(value))
        row = told["recommended"]
        tab.get_by_text(told["why"]).wait_for()
        facts = tab.locator("#plan-facts").inner_text()
        assert f"report goal {row['report_goal']}" in facts
        assert f"{row['min_separation']:,}\n" in facts
        assert f"MaxP {row['max_participation']}" in facts
        assert f"{row['days']:.3g}"[:4] in facts
        shown = tab.locator("main table").first.locator("tbody tr").count()
        assert shown == len(told["rows"])
        tab.get_by_role("figure").filter(has_text="ε by mechanism").locator("canvas").wait_for()
        tab.get_by_label("Population", exact=True).fill("0")
        tab.get_by_text("Population: give a number above 0.").wait_for()
        tab.get_by_label("Population", exact=True).fill("100")
        tab.get_by_label("Report goal, at most", exact=True).fill("0.5")
        tab.get_by_role("alert").wait_for()
        # A slider is moved by the keyboard.
        tab.get_by_label("Report goal, at most", exact=True).fill("50")
        tab.get_by_label("Population, slider").press("End")
        tab.wait_for_timeout(400)
        assert tab.get_by_label("Population", exact=True).input_value() == "100000000"


# Remembers the texts that are drawn on each canvas since it was cleared, and where: an axis has its numbers there.
DRAWN = """{
  const draw = CanvasRenderingContext2D.prototype.fillText, clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const size = this.measureText(text), {a, b, c, d, e, f} = this.getTransform();
    const at = [a * x + c * y + e, b * x + d * y + f];
    const left = at[0] - {left: 0, center: 0.5, right: 1}[this.textAlign] * size.width;
    const high = size.actualBoundingBoxAscent + size.actualBoundingBoxDescent;
    (this.canvas.drawn ??= []).push({text, left, right: left + size.width, y: at[1], high});
    return draw.apply(this, arguments);
  };
  CanvasRenderingContext2D.prototype.clearRect = function () { this.canvas.drawn = []; return clear.apply(this, arguments); };
}"""


def require_readable_axes(tab: Any) -> None:
    """No number of an axis stands on another one."""
    charts = tab.locator("main canvas").evaluate_all("all => all.map(canvas => canvas.drawn ?? [])")
    assert charts
    for drawn in charts:
        assert len(drawn) > 4
        for place, one in enumerate(drawn):
            for other in drawn[place + 1 :]:
                apart = one["right"] < other["left"] or other["right"] < one["left"]
                assert apart or abs(one["y"] - other["y"]) >= one["high"], (one["text"], other["text"])


@pytest.mark.parametrize("width", [390, 1280])
def test_the_numbers_of_an_axis_do_not_touch(tab: Any, tmp_path: Path, width: int) -> None:
    tab.add_init_script(DRAWN)
    tab.set_viewport_size({"width": width, "height": 900})
    run = made_run(tmp_path / "runs" / "diverges")
    records = [{"round": each, "top1": 0.1, "perplexity": 10.0 ** (3 + each)} for each in range(1, 20)]
    run.metrics_path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with board_of(tmp_path / "runs") as address:
        open_table(tab, address, 1)
        row_of(tab, "diverges").get_by_role("link").click()
        tab.get_by_role("figure").filter(has_text="Perplexity").locator("canvas").wait_for()
        tab.wait_for_timeout(200)  # charts are drawn once they know their width
        require_readable_axes(tab)
        tab.goto(f"{address}#/plan")
        tab.get_by_role("figure").filter(has_text="by rounds").locator("canvas").wait_for()
        tab.wait_for_timeout(200)
        require_readable_axes(tab)


def test_an_axis_of_a_narrow_range_has_numbers(tab: Any, tmp_path: Path) -> None:
    """No power of ten, its double or its half lies between 86 and 90."""
    tab.add_init_script(DRAWN)
    made_run(tmp_path / "runs" / "narrow", rounds=40)
    with board_of(tmp_path / "runs") as address:
        open_table(tab, address, 1)
        row_of(tab, "narrow").get_by_role("link").click()
        chart = tab.get_by_role("figure").filter(has_text="Perplexity").locator("canvas")
        chart.wait_for()
        tab.wait_for_timeout(200)
        values = [
            float(each) for each in chart.evaluate("canvas => canvas.drawn.map(each => each.text)") if each.isdigit()
        ]
        assert len([value for value in values if 80 <= value <= 100]) > 2, values
        require_readable_axes(tab)


def test_a_run_is_followed_while_it_trains_and_when_it_is_killed(tab: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(killable("").to_toml())
    path = tmp_path / "runs" / "live"
    path.parent.mkdir()
    changes = ["--set", "run.rounds=5000", "--set", "run.evaluate_every=1"]
    command = [sys.executable, "-m", "tacit", "train", "tiny.toml", "--out", str(path), *changes]
    with board_of(path.parent) as address:
        tab.goto(address)
        tab.get_by_text("No runs in").wait_for()
        training = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            row_of(tab, "live").locator(".state-running").wait_for(timeout=3 * PATIENCE_MS)  # it appeared by itself
            row_of(tab, "live").get_by_role("link").click()
            tab.get_by_role("figure").filter(has_text="Accuracy").locator("canvas").wait_for()
            seen = set()
            until(
                lambda: len(seen.add(tab.locator(".fact dd").first.inner_text()) or seen) > 3, "new rounds on the page"
            )
            assert tab.get_by_text("s a round").is_visible()
        finally:
            training.kill()
            training.communicate()
        tab.locator(".title .state-interrupted").wait_for()
        done = RunFolder.open(path).ledger().next_round
        until(lambda: f"{done:,} of" in tab.locator(".fact dd").first.inner_text(), "the last round on the page")


def test_a_thousand_runs(tab: Any, tmp_path: Path) -> None:
    folder = made_run(tmp_path / "made", rounds=2)
    folder.write_summary((folder.summary() or {}) | {"privacy": cost_of(folder).stated.as_dict()})
    made = folder.path
    for number in range(1000):
        shutil.copytree(made, tmp_path / "runs" / f"run-{number:03}", copy_function=os.link)
    with board_of(tmp_path / "runs") as address:
        tab.goto(address)
        tab.get_by_text("1,000 of 1,000 runs").wait_for()  # at once: most of them are being read
        tab.locator("table.runs tr[data-key]").nth(
            999
        ).wait_for()  # the first lines are shown before the others are drawn
        assert len(names(tab)) == 1000
        tab.get_by_role("button", name="Run", exact=True).click()
        assert names(tab)[0] == "run-000"
        tab.get_by_label("Find").fill("run-77")
        assert len(names(tab)) == 10


def test_the_board_goes_away_and_comes_back(tab: Any, runs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with board_of(runs, port=port) as address:
        open_table(tab, address, 4)
    tab.get_by_text("The board does not answer. What is shown").wait_for()
    assert len(names(tab)) == 4  # what was known stays
    made_run(runs / "meanwhile")
    with board_of(runs, port=port):
        tab.get_by_text("5 of 5 runs").wait_for()
        assert not tab.get_by_text("The board does not answer").is_visible()
    tab.get_by_text("The board does not answer. What is shown").wait_for()
    tab.get_by_role("link", name="Papers").click()
    tab.get_by_role("alert").wait_for()  # another page cannot be shown now
    with board_of(runs, port=port):
        tab.get_by_role("link", name=recorded().experiments[0].title).wait_for()  # and shows itself


def test_tabs_that_nobody_sees_keep_no_connection(chrome: Any, runs: Path) -> None:
    """A browser opens six connections to a server: without this, the seventh tab waits for ever."""
    context = chrome.new_context()
    context.add_init_script("window.away = false; Object.defineProperty(document, 'hidden', {get: () => window.away})")
    turn = "away => { window.away = away; document.dispatchEvent(new Event('visibilitychange')); }"
    with board_of(runs) as address:
        tabs = []
        for _ in range(7):
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            open_table(page, address, 4)
            page.evaluate(turn, True)
            tabs.append(page)
        made_run(runs / "meanwhile")
        last = context.new_page()
        last.set_default_timeout(PATIENCE_MS)
        open_table(last, address, 5)
        assert tabs[0].get_by_text("4 of 4 runs").is_visible()
        tabs[0].evaluate(turn, False)
        tabs[0].get_by_text("5 of 5 runs").wait_for()  # it has missed nothing
        assert not tabs[0].get_by_text("The board does not answer").is_visible()
    context.close()


def test_what_changes_before_the_page_listens_is_shown(tab: Any, runs: Path) -> None:
    held: list[Any] = []
    tab.route("**/api/events", lambda route: held.append(route))
    with board_of(runs) as address:
        tab.goto(address)
        tab.get_by_text("4 of 4 runs").wait_for()
        made_run(runs / "meanwhile")
        count = "fetch('/api/runs').then(answer => answer.json()).then(table => table.runs.length)"
        until(lambda: tab.evaluate(count) == 5, "the board to find the run")
        assert tab.get_by_text("4 of 4 runs").is_visible()
        held[-1].continue_()
        tab.get_by_text("5 of 5 runs").wait_for()


HEARD = """
window.heard = [];
window.EventSource = class extends EventSource {
  constructor(address) {
    super(address);
    this.addEventListener("run", (event) => heard.push(JSON.parse(event.data)));
  }
}"""


def test_an_answer_that_comes_late_hides_no_change(tab: Any, runs: Path) -> None:
    """The change overtakes the table that was made before it. A run that ended then would be shown as it was for good."""
    tab.add_init_script(HEARD)
    held: list[Any] = []
    tab.route("**/api/runs", lambda route: held.append((route, route.fetch())) if not held else route.continue_())
    with board_of(runs) as address:
        tab.goto(address)
        until(lambda: tab.evaluate("heard.length >= 0") and held, "the page to ask for the table")
        made_run(runs / "meanwhile")
        (runs / "beta" / "recipe.toml").write_text("broken")
        said = "heard.some(row => row.name === '{}' && row.state === '{}')"
        until(lambda: tab.evaluate(said.format("meanwhile", "finished")), "the new run to be told")
        until(lambda: tab.evaluate(said.format("beta", "damaged")), "the change to be told")
        route, answer = held[0]
        assert {row["name"] for row in answer.json()["runs"]} == {"alpha", "beta", "gamma", "broken"}
        route.fulfill(response=answer)
        tab.get_by_text("5 of 5 runs").wait_for()
        row_of(tab, "beta").locator(".state-damaged").wait_for()


def test_with_a_token_the_address_opens_the_board_and_nothing_else_does(tab: Any, runs: Path) -> None:
    with board_of(runs, owner=True, control=True, token="t" * 40) as address:
        tab.goto(address.split("?")[0])
        assert "A token is missing" in tab.locator("body").inner_text()
        open_table(tab, address, 4)
        assert "token" not in tab.url
        assert tab.evaluate("document.cookie") == ""  # no script can read it
        row_of(tab, "beta").get_by_role("link").click()
        tab.get_by_role("button", name="Resume").wait_for()
        chart = tab.get_by_role("figure").filter(has_text="Clipped share")
        chart.locator("canvas").wait_for()
        assert chart.get_by_text("owner only").is_visible()


def test_a_name_is_never_markup(tab: Any, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    made_run(tmp_path / "runs" / name, recipe=f"name = {json.dumps(name)}\n")
    with board_of(tmp_path / "runs") as address:
        open_table(tab, address, 1)
        assert names(tab) == [name]
        row_of(tab, name).get_by_role("link").click()
        tab.get_by_role("heading", name=name).wait_for()
        assert tab.locator("img").count() == 0


def test_the_theme_is_chosen_and_kept(tab: Any, runs: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with board_of(runs) as address:
        open_table(tab, address, 4)
        light = tab.evaluate(ground)
        tab.get_by_label("Theme").select_option("dark")
        dark = tab.evaluate(ground)
        tab.reload()
        assert light != dark == tab.evaluate(ground)
        tab.emulate_media(color_scheme="dark")
        tab.get_by_label("Theme").select_option("system")
        assert tab.evaluate(ground) == dark


def test_inspections_stand_side_by_side(tab: Any, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    for name in ("healthy", "faulty"):
        run = made_run(folder / name, recipe=f'name = "{name}"\ninspect = "text"\n')
        words = Table(columns=["unknown word"], rows=[[f"{name} word"]])
        share = {"healthy": 0.25, "faulty": 0.5}[name]
        bars = Bars(x="place", y="share", bars=[("first", share), ("second", 0.125)])
        image = Image(media="image/png", data=PIXEL, description=f"{name} image")
        section = Section(name="inspection", title="Unknown words", order=5, blocks=[words, bars, image])
        write_section(run, section)
    made_run(folder / "training")
    sentences = made_run(folder / "sentences", recipe='name = "sentences"\ninspect = "bias"\n')
    write_section(
        sentences, Section(name="inspection", title="Foreign", order=5, blocks=[Table(columns=["s"], rows=[["hey u"]])])
    )
    with board_of(folder) as address:
        open_table(tab, address, 4)
        tab.get_by_role("link", name="Inspect").click()
        tab.get_by_text("faulty word").wait_for()
        tab.get_by_text("healthy word").wait_for()
        assert tab.get_by_role("img", name="healthy image").evaluate("image => image.naturalWidth") == 1
        # Histograms that stand side by side have one scale.
        tall = tab.locator("main svg rect").evaluate_all("bars => bars.map(bar => Number(bar.getAttribute('height')))")
        assert tall == pytest.approx([tall[0], tall[0] / 4, tall[0] / 2, tall[0] / 4])  # faulty, healthy
        left, right = tab.get_by_label("On the left"), tab.get_by_label("On the right")
        assert "training" not in left.inner_text().replace("(training)", "training")
        right.select_option(label="healthy (text)")
        tab.get_by_text("faulty word").wait_for()
        until(lambda: tab.get_by_text("healthy word").count() == 1, "the other side")
        left.select_option(label="healthy (text)")
        until(lambda: tab.get_by_text("healthy word").count() == 2, "both sides")
        left.select_option(label="sentences (bias)")
        tab.get_by_text("hey u").wait_for()
        tab.get_by_role("link", name="sentences").click()
        tab.get_by_role("link", name="Try it").click()
        tab.get_by_text("This run is an inspection").wait_for()


def test_the_papers_are_charts_that_answer(tab: Any, tmp_path: Path) -> None:
    gboard = next(each for each in recorded().experiments if each.name == "gboard_privacy")
    with board_of(tmp_path) as address:
        tab.goto(address)
        tab.get_by_role("link", name="Papers").click()
        tab.get_by_role("link", name=gboard.title).wait_for()
        assert tab.locator("main section.experiment canvas").count() == len(recorded().experiments)
        tab.get_by_role("link", name=gboard.title).click()
        tab.get_by_role("heading", name=gboard.title, level=1).wait_for()
        figures = tab.get_by_role("figure")
        assert figures.count() == len(gboard.charts)
        chart = figures.filter(has_text=gboard.charts[0].title)
        # A curve is hidden and shown again from the keyboard.
        curve = chart.get_by_role("button", name=gboard.charts[0].curves[0].name, exact=True)
        curve.press("Enter")
        assert curve.get_attribute("aria-pressed") == "false"
        curve.press("Enter")
        assert curve.get_attribute("aria-pressed") == "true"
        # A point says its value, and what it is.
        spots = figures.filter(has_text="models of Tables 1 and 2")
        area = spots.locator(".u-over").bounding_box()
        tab.mouse.move(area["x"] + area["width"] * 0.985, area["y"] + area["height"] / 2)
        assert "MinS" in spots.locator(".tip").inner_text()
        table = tab.locator("main table").first
        first = gboard.tables[0].rows[0]
        assert table.locator("tbody tr").first.locator("td").all_inner_texts() == first
        tab.goto(f"{address}#/papers/nothing")
        tab.get_by_text("No such experiment").wait_for()


RULES = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']"
COLOURS = "['color-contrast']"  # all that the other theme can change
CHECK = "axe.run({{runOnly: {}, resultTypes: ['violations']}}).then(found => found.violations)"
PARTS = ["/#/runs", "/#/plan", "/#/inspect", "/#/fleet", "/#/nothing", "/nothing", "/keyboard", "/#/papers"]
PARTS += ["/#/papers/gboard_privacy", "/#/papers/memorization", "/#/compare/{alpha}/{beta}"]
PARTS += ["/#/run/{alpha}", "/#/run/{broken}"]
PARTS += [f"/#/run/{{alpha}}/{part}" for part in ("guarantee", "ledger", "audit", "try", "files")]
CANARY = {"number": 0, "setting": "n_u = 4, n_e = 14", "candidates": 1000, "exposure": 9.9}
ATTACK = {
    "verdict": "passed",
    "canaries": [CANARY | {"rank": 1, "place": 2}, CANARY | {"number": 1, "rank": 400, "place": None}],
    "lower_bounds": {
        "loss": {"epsilon": 0.3, "confidence": 0.95, "canaries": 40, "guesses": 30, "right": 20, "strongest": 2.0}
    },
    "proven": {"epsilon": 1.5, "delta": 1e-6},
    "strongest_possible": 0.9,
}


@pytest.fixture
def everything(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A board with something to show on every page: an attack, inspections, and a fleet with devices and alarms."""
    keep_attack(RunFolder.open(runs / "alpha"), ATTACK)
    for name, word in (("healthy", "katsu"), ("faulty", "kat su")):
        run = made_run(runs / name, recipe=f'name = "{name}"\ninspect = "text"\n')
        blocks = [
            Paragraph(text="It costs nothing more.", note=True),
            Table(columns=["word"], rows=[[word]]),
            Bars(x="place", y="share", bars=[("first", 0.25), ("second", 0.125)]),
            Image(media="image/png", data=PIXEL, description="a glyph"),
        ]
        write_section(run, Section(name="inspection", title="Unknown words", order=5, blocks=blocks))
    shown = status(coordinators=0, under_way=OPEN, could_come=3, rounds={"committed": 9, "abandoned": 4})
    monkeypatch.setattr("tacit.fleet.administrator.ask", lambda *asked: shown)
    monkeypatch.setattr("tacit.fleet.administrator.metrics", lambda access: METRICS)
    monkeypatch.setattr("tacit.web.fleets.AGAIN_S", -1)
    return {"owner": True, "fleet": Access("https://fleet", tmp_path / "admin-token"), "token": "t" * 40}


@pytest.mark.parametrize("width", [390, 1280])
def test_everybody_can_use_every_page(chrome: Any, runs: Path, everything: dict[str, Any], width: int) -> None:
    """In either theme. Which rules hold does not depend on it, but for colours."""
    if not AXE.is_file():
        pytest.skip("axe-core is not there: cd web && npm ci")
    # The check is a script of its own, which the policy of the pages would refuse.
    context = chrome.new_context(viewport={"width": width, "height": 900}, color_scheme="light", bypass_csp=True)
    context.add_init_script(path=AXE)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    with board_of(runs, **everything) as address:
        open_table(page, address, 6)
        base = address.split("/?")[0]
        known = {row["name"]: row["key"] for row in page.evaluate("fetch('/api/runs').then(r => r.json())")["runs"]}
        for part in PARTS:
            page.goto("about:blank")
            page.goto(base + part.format(**known))
            page.get_by_role("heading", level=1).first.wait_for()
            if part == "/#/plan":
                page.get_by_role("figure").filter(has_text="by rounds").locator("canvas").wait_for()
            page.wait_for_function(
                "!/(Computing|Reading|Loading)[^.]*…/.test(document.querySelector('main').innerText)"
            )
            page.wait_for_timeout(200)  # charts are drawn once they know their width
            for scheme, rules in (("light", RULES), ("dark", COLOURS)):
                page.emulate_media(color_scheme=scheme)
                found = page.evaluate(CHECK.format(rules))
                wrong = [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in found]
                assert not wrong, (part, scheme)
            page.emulate_media(color_scheme="light")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, part
    context.close()
