"""Make docs/drawings/*.svg. A test compares them with what this script makes.

python docs/site/draw.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from canvas import Canvas

import tacit
from tacit.privacy.participation.limits import Gap

HERE = Path(__file__).parents[1] / "drawings"


def gate() -> Canvas:
    """What leaves users, and how."""
    c = Canvas(900, 330)
    c.zone(10, 10, 452, 240, "stays with users", "private")
    for number, y in enumerate((45, 105, 185)):
        name = ("user 1", "user 2", "user n")[number]
        c.person(42, y + 10, "private")
        c.text(42, y + 52, name, colour="soft", size=11)
        c.box(80, y, 130, 40, "work", "on their examples", colour="private")
        c.arrow((210, y + 20), (236, y + 20))
        c.box(238, y, 110, 40, "clip", "length at most S", colour="private")
        c.arrow((348, y + 20), (404, 130 if number == 1 else 118 if number == 0 else 152))
    c.box(404, 92, 116, 86, "sum", "one user moves", "it by at most S", colour="private")
    c.text(470, 200, "the gate", bold=True, size=14, anchor="start")
    c.arrow((520, 135), (556, 135))
    c.box(558, 105, 96, 60, "+ noise", "size z · S", colour="noise")
    c.arrow((654, 135), (690, 135))
    c.zone(680, 10, 210, 240, "everybody may see", "public")
    c.box(692, 112, 80, 46, "release", colour="public")
    c.arrow((772, 135), (798, 135))
    c.box(800, 105, 80, 60, "server", "step", colour="public")
    c.arrow((840, 165), (840, 196))
    c.box(800, 198, 80, 40, "model", colour="public")
    c.arrow((840, 238), (840, 300), (145, 300), (145, 226), colour="soft", dashed=True)
    c.text(490, 294, "the next round begins with the new model", colour="soft")
    c.box(548, 18, 116, 44, "ledger", "intent, first", colour="public")
    c.arrow((548, 40), (492, 40), (492, 90), colour="public")
    return c


def ledger() -> Canvas:
    """Records of a run in their order, one round cut off."""
    c = Canvas(900, 250)
    c.text(
        20,
        30,
        "ledger.jsonl: records are appended, each on disk before what it speaks of happens",
        anchor="start",
        size=13,
    )
    records = [
        ("opened", "the plan", "public"),
        ("intent", "round 0", "public"),
        ("intent", "round 1", "public"),
        ("intent", "round 1, again", "public"),
        ("intent", "round 2", "public"),
        ("closed", "finished", "public"),
    ]
    for number, (title, text, colour) in enumerate(records):
        x = 20 + 148 * number
        c.box(x, 48, 120, 48, title, text, colour=colour)
        if number + 1 < len(records):
            c.arrow((x + 120, 72), (x + 146, 72), colour="soft")
    for number, (text, colour) in {
        1: ("users are read,", "noise"),
        2: ("killed in the", "private"),
        3: ("users are read,", "noise"),
        4: ("users are read,", "noise"),
    }.items():
        x = 80 + 148 * number
        c.arrow((x, 96), (x, 122), colour=colour)
        c.text(x, 138, text, colour="soft")
        c.text(x, 154, "middle of it" if number == 2 else "release follows", colour="soft")
    c.line((168, 172), (168, 182), (760, 182), (760, 172), colour="soft")
    c.arrow((464, 182), (464, 204), colour="public")
    c.text(464, 224, "ε counts four releases: the round that was cut off counts, because its intent is there", size=13)
    return c


def unit() -> Canvas:
    """Neighbouring data sets differ in one user, with everything they wrote."""
    c = Canvas(900, 290)
    for x, title, missing in ((10, "data set D", False), (470, "data set D′", True)):
        c.zone(x, 10, 420, 150, title, "private")
        for number in range(5):
            px = x + 52 + 80 * number
            gone = missing and number == 2
            c.person(px, 58, "private", missing=gone)
            for line in range((3, 5, 6, 2, 4)[number] if not gone else 0):
                c.line((px - 22, 98 + 9 * line), (px + (22, 12, 18)[line % 3], 98 + 9 * line), colour="soft", width=2)
        c.arrow((x + 210, 160), (x + 210, 196))
        c.box(x + 135, 198, 150, 40, "all releases", colour="public")
    c.text(682, 118, "one user, with", colour="private", size=11)
    c.text(682, 132, "all they wrote", colour="private", size=11)
    c.arrow((449, 218), (294, 218), colour="noise")
    c.arrow((449, 218), (602, 218), colour="noise")
    c.text(450, 262, "whatever you look for in the releases, its probability on one side", size=13)
    c.text(450, 280, "is at most e^ε times that on the other, plus δ", size=13)
    return c


def mechanisms() -> Canvas:
    """Real matrices of the four kinds of noise, and the noise on the sum of all rounds so far, at equal privacy."""
    shown, rounds = 16, 64
    c = Canvas(900, 420)
    c.text(
        20,
        24,
        "How the noise of one round (across) goes with that of another (down)",
        anchor="start",
        size=13,
        bold=True,
    )
    c.text(
        20, 44, "16 rounds; orange: the later round takes back noise of the earlier one", anchor="start", colour="soft"
    )
    curves = {}
    titles = {"fresh": "fresh noise", "tree": "binary tree", "blt": "BLT", "banded": "banded"}
    for number, (name, title) in enumerate(titles.items()):
        matrix, curves[name] = _noise(name, shown)[0], _noise(name, rounds)[1]
        x, y, cell = 20 + 222 * number, 84, 8.4
        c.text(x, y - 10, title, anchor="start", bold=True, size=13)
        together = matrix @ matrix.T
        scale = np.sqrt(np.diag(together))
        together = together / np.outer(scale, scale)
        for (row, column), value in np.ndenumerate(together):
            if abs(value) > 0.02:
                strength = 1.0 if row == column else min(1.0, abs(value) ** 0.7 * 1.3)
                c.square(x + cell * column, y + cell * row, cell - 1, "noise" if value > 0 else "private", strength)
        size = cell * shown
        c.line((x, y), (x + size, y), (x + size, y + size), (x, y + size), (x, y), colour="soft", width=0.8)
    left, top, width, height = 60, 262, 560, 128
    c.text(20, 246, "Noise on the sum of all rounds so far, at equal privacy", anchor="start", size=13, bold=True)
    most = max(curve.max() for curve in curves.values())
    c.line((left, top), (left, top + height), (left + width, top + height), colour="soft", width=1)
    for value in (0, 4, 8):
        level = top + height * (1 - value / most)
        c.text(left - 8, level + 4, str(value), anchor="end", colour="soft")
        c.line((left - 4, level), (left, level), colour="soft", width=1)
    for t in (1, 16, 32, 48, 64):
        c.text(left + width * t / rounds, top + height + 17, str(t), colour="soft")
    c.text(left + width + 12, top + height + 17, "rounds", anchor="start", colour="soft")
    colours = {"fresh": "ink", "tree": "private", "blt": "noise", "banded": "public"}
    for name, curve in curves.items():
        points = [(left + width * (t + 1) / rounds, top + height * (1 - value / most)) for t, value in enumerate(curve)]
        c.line(*points, colour=colours[name], width=5 if name == "blt" else 2)  # BLT lies under banded
    c.text(left + width + 12, top - 16, "root mean square", anchor="start", colour="soft")
    average = {name: float(np.sqrt(np.mean(curve**2))) for name, curve in curves.items()}
    for number, name in enumerate(sorted(curves, key=lambda name: -average[name])):
        label = f"{titles[name]}: {average[name]:.1f}"
        c.text(left + width + 12, top + 4 + 20 * number, label, anchor="start", colour=colours[name], size=13)
    return c


def _noise(name: str, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """The noise matrix of a mechanism, and the deviation of the noise on prefix sums when each user is in one round."""
    if name == "fresh":
        matrix, sensitivity = np.eye(rounds), 1.0
    else:
        plan = tacit.PrivacyPlan(
            mechanism=name,
            sampling="check_in",
            population=rounds,
            cohort=1,
            min_separation=rounds - 1,
            max_participation=1,
            clip_norm=1.0,
            noise_multiplier=1.0,
            delta=1e-3,
        )
        strategy = plan.build_strategy(rounds)
        matrix = strategy.noise_matrix(rounds)
        sensitivity = float(np.sqrt(strategy.sensitivity(rounds, Gap(rounds - 1), 1).squared))
    prefix = np.cumsum(matrix, axis=0)
    return matrix, sensitivity * np.sqrt((prefix**2).sum(axis=1))


def secagg() -> Canvas:
    """Three devices whose masks cancel, modulo 32."""
    c = Canvas(900, 300)
    c.zone(10, 10, 420, 280, "devices", "private")
    masks = {"ann": "+ 21 − 8", "bob": "− 21 + 30", "eve": "+ 8 − 30"}
    values = {"ann": 5, "bob": 3, "eve": 9}
    sent = {"ann": (5 + 21 - 8) % 32, "bob": (3 - 21 + 30) % 32, "eve": (9 + 8 - 30) % 32}
    for number, name in enumerate(values):
        y = 46 + 80 * number
        c.person(46, y + 10, "private")
        c.text(46, y + 52, name, colour="soft")
        c.box(84, y, 96, 44, f"value {values[name]}", colour="private")
        c.arrow((180, y + 22), (206, y + 22))
        c.box(208, y, 200, 44, f"{values[name]} {masks[name]} = {sent[name]}", "under two masks", colour="noise")
        c.arrow((408, y + 22), (560, y + 22))
        c.text(486, y + 16, str(sent[name]), bold=True, size=14)
    c.zone(550, 10, 340, 280, "server", "public")
    for number, name in enumerate(values):
        c.box(562, 46 + 80 * number, 100, 44, str(sent[name]), "looks random", colour="noise")
        c.arrow((662, 68 + 80 * number), (714, 148 + (number - 1) * 10))
    c.box(
        716,
        116,
        164,
        66,
        f"{' + '.join(map(str, sent.values()))}",
        f"= {sum(values.values())} modulo 32",
        colour="public",
    )
    c.text(798, 204, "every mask is in it twice:", colour="soft")
    c.text(798, 220, "added and subtracted;", colour="soft")
    c.text(798, 236, "what is left is 5 + 3 + 9", colour="soft")
    assert sum(sent.values()) % 32 == sum(values.values())
    return c


def main() -> None:
    for drawing in (gate, ledger, unit, mechanisms, secagg):
        (HERE / f"{drawing.__name__}.svg").write_text(drawing().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
