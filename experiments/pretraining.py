"""Gboard's Figure 3 on real text: a fixed clip, an adaptive clip, and public pre-training, with the tree and with BLT.

    tacit data vocabulary --user user --text sentences --public-name "commit messages, Ubuntu chat and Stack Exchange" \\
        --corpus commits_en.jsonl.gz --corpus irc_ubuntu_en.jsonl.gz --corpus stackexchange_small_en.jsonl.gz \\
        --out stores/public.vocab
    tacit data import commits_en.jsonl.gz irc_ubuntu_en.jsonl.gz stackexchange_small_en.jsonl.gz \\
        --user user --text sentences --vocabulary stores/public.vocab --out stores/public_text
    tacit data import scotus_advocates_en.jsonl.gz --user user --text sentences \\
        --vocabulary stores/public.vocab --key-file experiments/people.key --out stores/scotus_public_words
    python experiments/pretraining.py --minutes 8        (again, until it says that all is done)
    python experiments/pretraining.py --report

The words of the model come from public text, so that a guarantee at scale can be stated. Lines go to
docs/experiments/pretraining/results.jsonl.
"""

from __future__ import annotations

from pathlib import Path

from grid import Case, main

HERE = Path(__file__).parent
RECIPE = HERE / "pretraining.toml"
RESULTS = HERE.parent / "docs" / "experiments" / "pretraining" / "results.jsonl"

# At scale the tree has z = 7, as in the paper. With this z and a fixed clip, BLT costs the same rho after 500 rounds.
BLT_AT_SCALE = 4.015
MECHANISMS = {
    "tree": (),
    "blt": ("privacy.mechanism=blt", f"privacy.noise_multiplier={BLT_AT_SCALE * 100 / 6_500:.5f}"),
}
CLIPS = {
    "fixed": (),
    # The paper restarts before round 128 of 980: here at the same part of the run.
    "adaptive": ("privacy.adaptive={}", "privacy.clip_norm=0.2", "privacy.restarts=[64]"),
    "pretrained": (
        'pretrain={store="stores/public_text", public=true, epochs=2, batch_size=256, learning_rate=0.002}',
    ),
}
RUNS = Path("runs") / "pretraining"
FIRST_PRETRAINED = "tree-pretrained-s1"


def case(mechanism: str, clip: str, seed: int) -> Case:
    """A run. The first pre-trained model serves all runs that begin with one."""
    name = f"{mechanism}-{clip}-s{seed}"
    reuse = (f"pretrain.reuse={RUNS / FIRST_PRETRAINED}",) if clip == "pretrained" and name != FIRST_PRETRAINED else ()
    return Case(name, RECIPE, (*MECHANISMS[mechanism], *CLIPS[clip], *reuse, f"run.seed={seed}"))


CASES = [case(mechanism, clip, seed) for seed in (1, 2) for clip in CLIPS for mechanism in MECHANISMS]


if __name__ == "__main__":
    from figures import pretraining_report

    main(__doc__, CASES, RESULTS, pretraining_report)
