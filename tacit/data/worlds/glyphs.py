"""The pen strokes of the 62 characters, as a schoolbook would draw them.

Units: capitals stand between y = 0 and y = 1 (y grows downward), small letters begin at 0.42, descenders reach 1.36.
A path is a row of commands: ``M x y`` puts the pen down, ``L x y`` draws a line, ``Q cx cy x y`` a quadratic curve,
``A cx cy rx ry from to`` a part of an ellipse (degrees, 0 to the right, growing clockwise; the pen is put down at its
beginning unless it follows another stroke's end), and ``;`` lifts the pen. Some characters have several forms; each
writer keeps to one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

PATHS: dict[str, tuple[str, ...]] = {
    "0": ("A .32 .5 .25 .5 -90 270", "A .32 .5 .27 .5 -90 270", "A .32 .5 .27 .5 -90 270 ; M .46 .2 L .18 .8"),
    "1": ("M .1 .24 L .34 0 L .34 1", "M .1 .24 L .34 0 L .34 1 ; M .1 1 L .58 1"),
    "2": ("M .04 .26 Q .06 0 .32 0 Q .6 0 .6 .27 Q .6 .5 .04 1 L .62 1",),
    "3": (
        "M .06 .12 Q .14 0 .32 0 Q .58 0 .58 .24 Q .58 .47 .26 .47 Q .62 .47 .62 .73 Q .62 1 .3 1 Q .1 1 .03 .85",
        "M .06 0 L .58 0 L .28 .4 Q .62 .4 .62 .7 Q .62 1 .3 1 Q .1 1 .03 .85",
    ),
    "4": ("M .46 1 L .46 0 L 0 .68 L .64 .68", "M .1 0 L .04 .55 L .62 .55 ; M .46 .2 L .46 1"),
    "5": ("M .56 0 L .12 0 L .08 .44 Q .2 .36 .32 .36 Q .62 .36 .62 .68 Q .62 1 .3 1 Q .1 1 .03 .86",),
    "6": ("M .52 .02 Q .04 .2 .04 .7 A .32 .7 .28 .3 180 -180",),
    "7": ("M .02 0 L .62 0 L .22 1", "M .02 0 L .62 0 L .22 1 ; M .2 .5 L .56 .5"),
    "8": ("A .32 .24 .25 .24 90 450 ; A .32 .74 .3 .26 -90 270",),
    "9": ("A .32 .3 .28 .3 0 -360 ; M .6 .3 Q .6 .8 .42 1", "A .32 .3 .28 .3 0 -360 ; M .6 .3 L .58 1"),
    "A": ("M 0 1 L .34 0 L .68 1 ; M .12 .64 L .56 .64",),
    "B": (
        "M .04 0 L .04 1 ; M .04 0 L .3 0 Q .58 .02 .58 .24 Q .58 .47 .3 .47 L .04 .47"
        " ; M .3 .47 Q .64 .5 .64 .74 Q .64 1 .3 1 L .04 1",
    ),
    "C": ("A .42 .5 .4 .5 -48 -312",),
    "D": ("M .04 0 L .04 1 ; M .04 0 L .22 0 Q .68 .04 .68 .5 Q .68 .96 .22 1 L .04 1",),
    "E": ("M .56 0 L .04 0 L .04 1 L .58 1 ; M .04 .48 L .48 .48",),
    "F": ("M .58 0 L .04 0 L .04 1 ; M .04 .48 L .48 .48",),
    "G": ("A .42 .5 .4 .5 -48 -330 ; M .46 .56 L .8 .56 L .8 1",),
    "H": ("M .04 0 L .04 1 ; M .62 0 L .62 1 ; M .04 .5 L .62 .5",),
    "I": ("M .3 0 L .3 1 ; M .08 0 L .52 0 ; M .08 1 L .52 1",),
    "J": ("M .2 0 L .68 0 ; M .46 0 L .46 .75 Q .46 1 .24 1 Q .04 1 .02 .76",),
    "K": ("M .04 0 L .04 1 ; M .6 0 L .04 .58 ; M .22 .42 L .64 1",),
    "L": ("M .04 0 L .04 1 L .58 1",),
    "M": ("M .02 1 L .06 0 L .4 .62 L .74 0 L .78 1",),
    "N": ("M .04 1 L .04 0 L .62 1 L .62 0",),
    "O": ("A .42 .5 .42 .5 -90 270",),
    "P": ("M .04 0 L .04 1 ; M .04 0 L .3 0 Q .62 .02 .62 .27 Q .62 .53 .3 .53 L .04 .53",),
    "Q": ("A .42 .5 .42 .5 -90 270 ; M .5 .68 L .84 1.08",),
    "R": ("M .04 0 L .04 1 ; M .04 0 L .3 0 Q .62 .02 .62 .26 Q .62 .5 .3 .5 L .04 .5 ; M .28 .5 L .64 1",),
    "S": ("M .56 .12 Q .46 0 .3 0 Q .06 0 .06 .24 Q .06 .44 .32 .49 Q .6 .54 .6 .76 Q .6 1 .3 1 Q .1 1 .02 .86",),
    "T": ("M 0 0 L .68 0 ; M .34 0 L .34 1",),
    "U": ("M .04 0 L .04 .64 Q .04 1 .34 1 Q .64 1 .64 .64 L .64 0",),
    "V": ("M 0 0 L .34 1 L .68 0",),
    "W": ("M 0 0 L .2 1 L .42 .3 L .64 1 L .84 0",),
    "X": ("M .02 0 L .64 1 ; M .64 0 L .02 1",),
    "Y": ("M 0 0 L .33 .48 ; M .66 0 L .33 .48 L .33 1",),
    "Z": ("M .04 0 L .62 0 L .02 1 L .64 1", "M .04 0 L .62 0 L .02 1 L .64 1 ; M .14 .5 L .52 .5"),
    "a": (
        "A .28 .71 .25 .29 0 -360 ; M .53 .42 L .53 .9 Q .54 1 .64 .98",
        "M .08 .5 Q .18 .42 .3 .42 Q .5 .42 .5 .62 L .5 1 ; M .5 .68 Q .04 .64 .04 .84 Q .04 1 .24 1 Q .42 1 .5 .84",
    ),
    "b": ("M .06 0 L .06 1 ; A .3 .71 .24 .29 180 540",),
    "c": ("A .3 .71 .26 .29 -45 -315",),
    "d": ("A .28 .71 .24 .29 0 -360 ; M .52 0 L .52 1",),
    "e": ("M .05 .7 L .52 .7 A .285 .71 .24 .29 -4 -310",),
    "f": ("M .5 .08 Q .44 0 .36 0 Q .22 0 .22 .2 L .22 1 ; M .04 .42 L .44 .42",),
    "g": ("A .28 .68 .24 .26 0 -360 ; M .52 .42 L .52 1.1 Q .52 1.36 .28 1.36 Q .1 1.36 .06 1.22",),
    "h": ("M .06 0 L .06 1 ; M .06 .64 Q .12 .42 .3 .42 Q .5 .42 .5 .66 L .5 1",),
    "i": ("M .2 .42 L .2 1 ; M .2 .06 L .2 .11", "M .2 .42 L .2 .88 Q .2 1 .32 .98 ; M .2 .06 L .2 .11"),
    "j": ("M .34 .42 L .34 1.12 Q .34 1.36 .14 1.36 Q .04 1.36 0 1.26 ; M .34 .06 L .34 .11",),
    "k": ("M .06 0 L .06 1 ; M .46 .42 L .06 .74 ; M .2 .64 L .5 1",),
    "l": ("M .2 0 L .2 .86 Q .2 1 .36 .98", "M .2 0 L .2 1"),
    "m": (
        "M .04 .42 L .04 1 ; M .04 .6 Q .1 .42 .22 .42 Q .38 .42 .38 .62 L .38 1"
        " ; M .38 .6 Q .44 .42 .56 .42 Q .72 .42 .72 .62 L .72 1",
    ),
    "n": ("M .06 .42 L .06 1 ; M .06 .64 Q .12 .42 .3 .42 Q .5 .42 .5 .66 L .5 1",),
    "o": ("A .3 .71 .26 .29 -90 270",),
    "p": ("M .06 .42 L .06 1.36 ; A .3 .71 .24 .29 180 540",),
    "q": ("A .28 .71 .24 .29 0 -360 ; M .52 .42 L .52 1.36 L .64 1.26",),
    "r": ("M .1 .42 L .1 1 ; M .1 .64 Q .18 .42 .42 .45",),
    "s": (
        "M .42 .5 Q .36 .42 .24 .42 Q .06 .42 .06 .56 Q .06 .68 .25 .71 Q .46 .74 .46 .86 Q .46 1 .24 1 Q .1 1 .02 .92",
    ),
    "t": (
        "M .24 .12 L .24 .84 Q .24 1 .4 1 Q .46 1 .5 .96 ; M .04 .42 L .46 .42",
        "M .24 .12 L .24 1 ; M .02 .42 L .46 .42",
    ),
    "u": ("M .06 .42 L .06 .78 Q .06 1 .26 1 Q .48 1 .5 .74 L .5 .42 L .5 1",),
    "v": ("M .02 .42 L .26 1 L .5 .42",),
    "w": ("M 0 .42 L .16 1 L .36 .52 L .56 1 L .72 .42",),
    "x": ("M .04 .42 L .5 1 ; M .5 .42 L .04 1",),
    "y": ("M .04 .42 L .28 .98 ; M .52 .42 L .16 1.36",),
    "z": ("M .06 .42 L .48 .42 L .04 1 L .5 1", "M .06 .42 L .48 .42 L .04 1 L .5 1 ; M .1 .71 L .44 .71"),
}

_ARGUMENTS = {"M": 2, "L": 2, "Q": 4, "A": 6}


def trace(path: str, spacing: float) -> NDArray[np.float64]:
    """[points, 3]: x, y and the way travelled, at most `spacing` apart along every stroke; x is centred on 0."""
    strokes = [_resample(_stroke(part.split()), spacing) for part in path.split(";")]
    points = np.concatenate(strokes)
    points[:, 0] -= (points[:, 0].min() + points[:, 0].max()) / 2
    travelled = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    return np.column_stack([points, travelled])


def _stroke(commands: list[str]) -> NDArray[np.float64]:
    """The stroke as a fine polygon, before resampling."""
    points: list[NDArray[np.float64]] = []
    steps = np.linspace(0.0, 1.0, 33)[:, None]
    while commands:
        letter = commands[0]
        numbers = np.array([float(cell) for cell in commands[1 : 1 + _ARGUMENTS[letter]]])
        commands = commands[1 + _ARGUMENTS[letter] :]
        if letter in "ML":
            points.append(numbers[None, :])
        elif letter == "Q":
            start, bend, end = points[-1][-1], numbers[:2], numbers[2:]
            points.append((1 - steps) ** 2 * start + 2 * steps * (1 - steps) * bend + steps**2 * end)
        else:
            angle = np.radians(numbers[4] + (numbers[5] - numbers[4]) * steps)
            points.append(numbers[:2] + numbers[2:4] * np.hstack([np.cos(angle), np.sin(angle)]))
    return np.concatenate(points)


def _resample(points: NDArray[np.float64], spacing: float) -> NDArray[np.float64]:
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    places = np.linspace(0.0, along[-1], max(2, 1 + int(np.ceil(along[-1] / spacing))))
    return np.column_stack([np.interp(places, along, points[:, axis]) for axis in (0, 1)])
