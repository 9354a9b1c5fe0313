"""Built-in worlds: populations of users that are made when they are asked for, at any size, the same for the same seed.

keyboard       chat messages, with the best possible next-word prediction known (next_word_distribution.py, from grammar.py)
handwriting    characters drawn by hand (glyphs.py holds the strokes)
"""

from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.data.worlds.keyboard import KeyboardWorld

__all__ = ["HandwritingWorld", "KeyboardWorld"]
