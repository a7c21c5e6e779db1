from __future__ import annotations

import math
from dataclasses import replace

import pytest

from slipstream.reports.study.conclusion import conclude_all
from slipstream.reports.study.evidence import evidence_of
from slipstream.reports.study.gather import RunData

from ..made_data import run


def seeds(
    variant: str, error: float, name: str = "poisson", scatter: float = 0.01
) -> list[RunData]:
    """Three, whose logarithms scatter by this standard deviation."""
    return [
        run(variant, error * math.exp(scatter * step), seed, name=name)
        for seed, step in enumerate((-1, 0, 1))
    ]


USUAL = {"baseline": 0.4, "no-token-attention": 0.4, "mlp-only": 0.8, "slice-once": 0.6}


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        ({}, "The attention is removable here: without token attention the error is 1.00 times the"
             " baseline's (95 %: 0.98 to 1.02)."),
        ({"no-token-attention": 0.5}, "Removing the attention costs something here: without token"
                                      " attention the error is 1.25 times"),
        ({"no-token-attention": 0.3}, "The attention is better removed here: without token"
                                      " attention the error is 0.75 times"),
        ({}, "The coupling is not removable here: mlp-only has 2.00 times the baseline's error ("),
        ({"mlp-only": 0.4}, "The coupling is removable here: mlp-only has 1.00 times"),
        ({}, "Slicing once is not enough here: slice-once has 1.50 times"),
        ({"slice-once": 0.4}, "Slicing once is enough here: slice-once has 1.00 times"),
    ],
)  # fmt: skip
def test_the_sentence_follows_from_the_numbers(errors: dict[str, float], sentence: str) -> None:
    runs = [one for variant, error in (USUAL | errors).items() for one in seeds(variant, error)]
    assert sentence in conclude_all(evidence_of(runs))


def test_what_the_seeds_do_not_decide_is_said_to_be_undecided() -> None:
    """The verdicts are those of the claims, intervals included."""
    errors = USUAL | {"no-token-attention": 0.43, "mlp-only": 0.43, "slice-once": 0.43}
    runs = [one for name, error in errors.items() for one in seeds(name, error, scatter=0.06)]
    said = conclude_all(evidence_of(runs))
    for what in ("the attention is removable", "the coupling is removable", "slicing once is enou"):
        assert f"Whether {what}" in said
    failed = replace(runs[0], curve=replace(runs[0].curve, errors={100: 0.4, 200: 0.9}))
    said = conclude_all(evidence_of([failed, *runs[1:]]))
    assert said.startswith("These runs say nothing of the variants. Of the baseline: its training")


def test_one_seed_of_everything_is_undecided() -> None:
    said = conclude_all(evidence_of([run(variant, error) for variant, error in USUAL.items()]))
    assert said.count("Whether") == said.count("is undecided here: ") == 3


def test_what_was_not_run_is_not_spoken_of_and_what_is_assumed_is_said() -> None:
    assert conclude_all(evidence_of([run("baseline", 0.1)])) == ""
    said = conclude_all(evidence_of([*seeds("baseline", 0.1), run("mlp-only", 0.2)]))
    assert said == (
        "The coupling is not removable here: mlp-only has 2.00 times the baseline's error (95 %:"
        " 1.90 to 2.10, one seed, its scatter assumed)."
    )


def test_several_experiments_are_told_together() -> None:
    runs = [one for name in "abc" for v, e in USUAL.items() for one in seeds(v, e, name)]
    runs += [*seeds("baseline", 0.4, "d"), run("mlp-only", 0.4, name="d")]
    assert conclude_all(evidence_of(runs)) == (
        "The attention is removable on a (1.00 [0.98, 1.02]), b (1.00 [0.98, 1.02]) and c (1.00"
        " [0.98, 1.02]). The coupling is not removable on a (2.00 [1.96, 2.05]), b (2.00 [1.96,"
        " 2.05]) and c (2.00 [1.96, 2.05]); the coupling is removable on d (1.00* [0.95, 1.05])."
        " Slicing once is not enough on a (1.50 [1.47, 1.53]), b (1.50 [1.47, 1.53]) and c (1.50"
        " [1.47, 1.53]). In brackets: the error over the baseline's and its interval of 95 %; * one"
        " seed, its scatter assumed."
    )
    failed = [run("baseline", 1.2, name="e"), run("mlp-only", 1.2, name="e")]
    said = conclude_all(evidence_of([*runs[:12], *failed]))
    assert "The coupling is not removable on a (2.00 [1.96, 2.05]). " in said
    assert said.endswith(
        "Of e: These runs say nothing of the variants. Of the baseline: it learned"
        " nothing: its best error is 1.2, that of predicting means 1."
    )
    assert conclude_all(evidence_of([run("untied", 0.1, name=n) for n in "ab"])) == ""
