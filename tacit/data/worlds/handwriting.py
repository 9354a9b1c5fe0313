"""The handwriting world: digits and letters drawn by as many writers as you like, each with a hand of their own.

A writer has a slant, a size, a pen, a way of bending lines, a form for each character that has several, and for every
character a distortion they repeat each time. A single glyph adds a little unsteadiness. All of it is a pure function
of (seed, writer number, glyph number). Images are 28×28 bytes, ink bright (255) on black (0), as in EMNIST.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, rows_and_places
from tacit.data.users import Examples, Names, names_of_numbers
from tacit.data.worlds import randomness
from tacit.data.worlds.glyphs import CHARACTERS, PATHS, trace
from tacit.errors import RecipeError

SIDE = 28
_PIXELS_PER_UNIT = 16.0
_SPACING = 0.5 / _PIXELS_PER_UNIT
# Where the middle of the writing area lies, in the glyphs' units: between the top of capitals and the descenders.
_MIDDLE = 0.6
# A point of the pen inks pixels at most this far from its own.
_REACH = 2
_SIZE_SPREAD = 0.4

# What a draw is for: the first number in its name.
_SIZE, _GLYPH, _CLASS, _FORM, _HAND, _HABIT, _SWAY, _POSE, _GRAIN = range(9)


@dataclass(frozen=True)
class _Shapes:
    """Every form of every character as points [n, 3] (x, y, way travelled), back to back."""

    points: NDArray[np.float64]
    at: NDArray[np.int64]  # by form
    first: NDArray[np.int64]  # by character: its first form
    forms: NDArray[np.int64]  # by character: how many


@cache
def _shapes() -> _Shapes:
    traced = [[trace(path, _SPACING) for path in PATHS[character]] for character in CHARACTERS]
    flat = [points for forms in traced for points in forms]
    forms = np.array([len(each) for each in traced])
    lengths = np.array([len(points) for points in flat])
    return _Shapes(np.concatenate(flat), offsets_of(lengths), np.cumsum(forms) - forms, forms)


class HandwritingWorld:
    """`Users` who write single characters: label c is ``characters[c]``, every class equally likely.

    A writer leaves `glyphs_per_writer` images on average, at least one and at most `most_glyphs`.

    >>> import numpy as np, tacit
    >>> world = tacit.HandwritingWorld(seed=1, writers=1000)
    >>> images = world.gather(np.array([7]))
    >>> images.items.shape[1:], world.characters[images.labels[0]]
    ((28, 28), 'p')
    """

    characters = CHARACTERS

    def __init__(self, seed: int, writers: int, glyphs_per_writer: float = 30.0, most_glyphs: int = 400) -> None:
        if writers < 1:
            raise RecipeError(f"Expected writers ≥ 1 in the handwriting world, got {writers}.")
        if not glyphs_per_writer > 0 or most_glyphs < 1:
            raise RecipeError(
                "Expected glyphs_per_writer > 0 and most_glyphs ≥ 1 in the handwriting world, "
                f"got {glyphs_per_writer} and {most_glyphs}."
            )
        self.seed = seed
        self._writers = writers
        self._key = randomness.name(1, seed % 2**64)
        self._mean = glyphs_per_writer
        self._most = most_glyphs

    def with_more(self, writers: int) -> HandwritingWorld:
        """The same world with so many more writers, whose numbers follow those of these."""
        return HandwritingWorld(self.seed, self._writers + writers, self._mean, self._most)

    def __len__(self) -> int:
        return self._writers

    def names(self, users: NDArray[np.int64]) -> Names:
        """The numbers of these users: a user of a world is no person."""
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The images of these writers and their classes."""
        keys = randomness.name(self._key, np.asarray(users, dtype=np.int64))
        size = np.exp(_SIZE_SPREAD * randomness.normal(keys, _SIZE) - _SIZE_SPREAD**2 / 2)
        counts = np.clip(np.rint(self._mean * size), 1, self._most).astype(np.int64)
        writer, glyph = rows_and_places(counts)
        glyph_keys = randomness.name(keys[writer], _GLYPH, glyph)
        labels = (randomness.uniform(glyph_keys, _CLASS) * len(CHARACTERS)).astype(np.int32)
        images = _draw(keys[writer], glyph_keys, labels)
        return Examples(images, np.arange(len(labels) + 1), offsets_of(counts), labels)

    def sheet(self, user: int, copies: int = 1) -> NDArray[np.uint8]:
        """All 62 characters in this writer's hand, `copies` rows of them, for looking at: [28·copies, 28·62]."""
        labels = np.tile(np.arange(len(CHARACTERS), dtype=np.int32), copies)
        key = randomness.name(self._key, np.full(len(labels), user))
        images = _draw(key, randomness.name(key, _GLYPH, self._most + np.arange(len(labels))), labels)
        return images.reshape(copies, -1, SIDE, SIDE).transpose(0, 2, 1, 3).reshape(copies * SIDE, -1)


def _draw(
    writer_keys: NDArray[np.uint64], glyph_keys: NDArray[np.uint64], labels: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """One image for each (writer, glyph, label)."""
    shapes = _shapes()
    form = shapes.first[labels] + (randomness.uniform(writer_keys, _FORM, labels) * shapes.forms[labels]).astype(
        np.int64
    )
    image, place = rows_and_places(np.diff(shapes.at)[form])
    x, y, travelled = shapes.points[shapes.at[form[image]] + place].T

    # The writer's habit with this character and the hand's sway in this glyph: smooth displacements along the stroke.
    for keys, size in (
        (randomness.name(writer_keys, _HABIT, labels), 0.035),
        (randomness.name(glyph_keys, _SWAY), 0.018),
    ):
        for wave in range(1, 4):
            phase = 2 * np.pi * randomness.uniform(keys, wave, 0)
            angle = wave * 1.9 * travelled + phase[image]
            x = x + (size * randomness.normal(keys, wave, 1))[image] * np.sin(angle)
            y = y + (size * randomness.normal(keys, wave, 2))[image] * np.cos(angle)

    x, y = _pose(writer_keys, glyph_keys, image, x, y)
    radius = np.clip(1.05 + 0.3 * randomness.normal(writer_keys, _HAND, 9), 0.55, 1.8)
    radius = radius * (1 + 0.06 * randomness.normal(glyph_keys, _POSE, 9))
    brightness = 225 + 30 * randomness.uniform(writer_keys, _HAND, 10)
    ink = _ink(image, x, y, radius[image], len(labels))
    roughness = 0.22 * randomness.uniform(writer_keys, _HAND, 11)
    pixel = np.arange(SIDE * SIDE)
    grain = randomness.uniform(randomness.name(glyph_keys, _GRAIN)[:, None], pixel)
    shade = ink * brightness[:, None] * (1 - roughness[:, None] * grain)
    return np.rint(shade).astype(np.uint8).reshape(-1, SIDE, SIDE)


def _pose(
    writer_keys: NDArray[np.uint64],
    glyph_keys: NDArray[np.uint64],
    image: NDArray[np.int64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points in pixels, after slant, turn, size, the writer's warp of the page and the glyph's own deviation."""

    def trait(number: int, spread: float, wobble: float) -> NDArray[np.float64]:
        own = spread * randomness.normal(writer_keys, _HAND, number)
        return own + wobble * randomness.normal(glyph_keys, _POSE, number)

    y = y - _MIDDLE
    bend_x, bend_y = trait(0, 0.09, 0.015)[image], trait(1, 0.05, 0.015)[image]
    x, y = x + bend_x * np.sin(3.0 * y), y + bend_y * np.sin(4.0 * x)
    slant, turn = trait(2, 0.17, 0.03)[image], trait(3, 0.05, 0.03)[image]
    width, height = np.exp(trait(4, 0.12, 0.03))[image], np.exp(trait(5, 0.07, 0.02))[image]
    x, y = width * (x - slant * y), height * y
    x, y = x - turn * y, y + turn * x
    half = (SIDE - 1) / 2
    shift_x, shift_y = trait(6, 0.3, 0.5)[image], trait(7, 0.4, 0.4)[image]
    return half + _PIXELS_PER_UNIT * x + shift_x, half + _PIXELS_PER_UNIT * y + shift_y


def _ink(
    image: NDArray[np.int64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    radius: NDArray[np.float64],
    images: int,
) -> NDArray[np.float64]:
    """[images, pixels]: how much of each pixel the pen covers, by its distance to the nearest point of a stroke."""
    ink = np.zeros(images * SIDE * SIDE)
    column, row = np.rint(x).astype(np.int64), np.rint(y).astype(np.int64)
    for down in range(-_REACH, _REACH + 1):
        for right in range(-_REACH, _REACH + 1):
            i, j = row + down, column + right
            cover = np.clip(radius + 0.5 - np.hypot(i - y, j - x), 0.0, 1.0)
            seen = (cover > 0) & (i >= 0) & (i < SIDE) & (j >= 0) & (j < SIDE)
            np.maximum.at(ink, (image[seen] * SIDE + i[seen]) * SIDE + j[seen], cover[seen])
    return ink.reshape(images, SIDE * SIDE)
