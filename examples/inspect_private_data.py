"""Find a bug in text that nobody may read: a private model makes up words like those that the vocabulary does not have.

    python examples/inspect_private_data.py

In this built-in world a bug joins two words in a tenth of all sentences. The made-up words show it, although nobody has
looked at a sentence, and what they reveal about any one person is bounded by epsilon.
"""

import sys

import tacit

TINY = "--tiny" in sys.argv
changes = ["run.rounds=50", "privacy.cohort=200"]
if TINY:
    changes = [
        "run.rounds=1",
        "privacy.cohort=10",
        "privacy.noise_multiplier=4.0",
        "data.held_out=10",
        "model.units=8",
        "model.projection=8",
        "model.embedding=8",
        "look.drawn=20",
        "look.width=16",
        "look.top=5",
    ]


def letters(metrics):
    return f"perplexity of a letter {metrics['perplexity']:.2f}"


# Inspect your own users with store="stores/mine", or those of a run of a recipe, and its model, with run="runs/demo-1".
found = tacit.inspect_text(changes=changes, callbacks=[tacit.Progress(describe=letters)])

print("The most likely unknown words:")
for word, probability in found.findings.words[:10]:
    print(f"  {word!r:<20} {probability:.2%}")
print(found.findings.conclusion())
print(found.run.cost())
print("Report:", found.run.report())
