"""The tables of claims: verdicts with their numbers, and where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from slipstream.reports.content import Cell, Table
from slipstream.reports.study.cells import text_cell
from slipstream.reports.study.claims import CLAIMS, COUPLING
from slipstream.reports.study.evidence import Evidence, evidence_of, length_text
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.judgement import Judgement, judge_all
from slipstream.reports.study.measures import untrained_depths

COLUMNS = (
    "claim", "experiment", "the claim", "verdict", "number [95 %]", "paper's range", "seeds",
)  # fmt: skip
SOURCES = ("claim", "experiment", "which number", "runs", "on test [95 %]")
_CAPTION = (
    "The numbers that decide each claim, mostly ratios of validation errors, with intervals of 95 %"
    " from the scatter of the logarithms over the seeds (Welch). Equal means within 10 %, a band of"
    " ours, where the claim says nothing else. Verdicts are tests at 5 % against both ends of the"
    " band, one-sided for equal (the interval of 90 % lies in it) and two-sided for better and"
    " worse; where a claim has several rows, the levels are Holm's, from the largest p-value down."
    " A ratio that differs from 1, but not surely by more than the band, is called different. The"
    " paper's range is tested at 5 % for each row by itself. Seeds: how many of each variant would"
    " decide with a power of 80 %, if ratio and scatter are as measured."
)
_ASSUMED = (
    " Assumed: a single seed is taken to scatter like the variant of the same runs whose seeds"
    " scatter most, which the table of numbers names."
)
_SOURCES_CAPTION = (
    "Which number decides a claim, and of which runs. Different lengths of training are compared"
    " only where the claim is on lengths. On test: the same ratio of composite errors, its interval"
    " a bootstrap over seeds and samples, too narrow with three seeds, and over samples alone with"
    " one."
)


def claims_tables(runs: Sequence[RunData]) -> list[Table]:
    """Verdicts, a row for each number, and a table of where the numbers come from.

    Notes name the claims that are not asked, or on which no run bears. Empty without any number.
    """
    evidence = evidence_of(runs)
    judged = judge_all(evidence)
    judgements = [one for own in judged.values() for one in own]
    if not judgements:
        return []
    untested = [text[0].lower() + text[1:] for text, own in judged.items() if not own]
    notes = [f"No run bears on: {'; '.join(untested)}."] if untested else []
    notes = [*_insensitive(judged), *_not_asked(evidence), *_left_out(evidence), *notes]
    assumed = any(one.measured.estimate.assumed for one in judgements)
    caption, title = _CAPTION + _ASSUMED * assumed, "The paper's claims"
    rows = tuple(tuple(_row(one)) for one in judgements)
    sources = tuple(tuple(_source(one)) for one in judgements)
    return [
        Table("claims", title, caption, COLUMNS, rows, tuple(notes)),
        Table("numbers", "The numbers behind the claims", _SOURCES_CAPTION, SOURCES, sources),
    ]


def _names(one: Judgement) -> list[Cell]:
    """Claim and experiment with the runs, as "poisson, G = 8, 4,000 steps"."""
    place = ", ".join(text for text in (one.experiment, one.measured.where) if text)
    return [text_cell(one.claim.text), text_cell(place)]


def _row(one: Judgement) -> list[Cell]:
    assumed = " (assumed)" if one.measured.estimate.assumed and one.verdict != "undecided" else ""
    return [
        *_names(one),
        text_cell(one.answer),
        text_cell(one.words + assumed),
        Cell(one.value, kind=_kind(one), interval=one.interval),
        text_cell(one.against_paper),
        text_cell(one.seeds_needed),
    ]


def _source(one: Judgement) -> list[Cell]:
    assumed, on_test = one.measured.estimate.assumed, one.measured.on_test
    scatter = f"a single seed taken to scatter like {assumed}" if assumed else ""
    runs = "; ".join(text for text in (one.measured.seeds, scatter) if text)
    tested = Cell(on_test[0], kind=_kind(one), interval=on_test[1:]) if on_test else text_cell("")
    return [*_names(one), text_cell(one.claim.what), text_cell(runs), tested]


def _kind(one: Judgement) -> Literal["ratio", "error"]:
    return "ratio" if one.claim.scale == "ratio" else "error"


def _insensitive(judged: Mapping[str, Sequence[Judgement]]) -> list[str]:
    """Experiments on which even a model without coupling counts as equal."""
    blind = [
        one.experiment
        for own in judged.values()
        for one in own
        if one.claim.text == COUPLING and one.verdict == "equivalent"
    ]
    if not blind:
        return []
    return [
        f"On {', '.join(blind)} a model without any coupling counts as equal to the baseline: that"
        " another variant does too says little there."
    ]


def _not_asked(evidence: Sequence[Evidence]) -> list[str]:
    """Claims that mean nothing on some experiments, with the reason."""
    notes = []
    for claim in CLAIMS:
        reasons: dict[str, list[str]] = {}
        for one in evidence:
            why = claim.why_not_asked(one.experiment)
            if why is not None:
                reasons.setdefault(why, []).append(one.experiment)
        notes += [
            f"{claim.text}: not asked on {', '.join(names)}: {why}."
            for why, names in reasons.items()
        ]
    return notes


def _left_out(evidence: Sequence[Evidence]) -> list[str]:
    """What decides nothing because a run of it failed, and what overfitted, a sentence each."""
    sentences = []
    for one in evidence:
        sentences += [
            f"Left out: {run.name} was trained for {run.config.steps:,} steps, the baseline for"
            f" {one.main.steps:,}; different lengths are not compared."
            for run in one.other_lengths
        ]
        sentences += _untrained(one)
        sweeps = [group for groups in one.sweeps.values() for group in groups]
        for group in {id(each.runs[0]): each for each in (one.main, *one.longer, *sweeps)}.values():
            size = group.size
            place = f"{group.experiment}, G = {size.slices}, L = {size.layers}"
            place += f", {length_text(group)}"
            failures = [f"{name}: {why}" for name, why in group.failures().items()]
            sentences += [f"Left out: {place}, {failure}." for failure in failures]
            overfitted = (run for run in group.compared if run.curve.overfitting)
            sentences += [
                f"{place}, {run.variant}, seed {run.config.seed}: {run.curve.overfitting};"
                " the best error counts."
                for run in overfitted
            ]
    return list(dict.fromkeys(sentences))


def _untrained(one: Evidence) -> list[str]:
    """Variants whose deeper models are worse than their shallower ones, a sentence each."""
    groups, sentences = one.sweeps.get("layers", ()), []
    for variant in dict.fromkeys(row.variant for group in groups for row in group.rows()):
        failed = untrained_depths(groups, variant)
        if failed:
            depths = ", ".join(str(group.at("layers")) for group in failed)
            sentences.append(
                f"Left out of the claims on depth: {one.experiment}, {variant} with L = {depths}:"
                " its error is higher than with fewer layers, though a deeper model can do all that"
                " a shallower one can. That is its training, not a limit of the variant."
            )
    return sentences
