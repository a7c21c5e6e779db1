"""How captions say what the numbers of a table are, where not all were measured alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from slipstream.evaluation.summary import definition_of
from slipstream.reports.study.settings import Group
from slipstream.runs.evaluation_file import Evaluation


def facts_by_owner(facts: Iterable[tuple[str, str, str]]) -> str:
    """Each different fact once; where there are several, with the runs that each is true of.

    A fact is given with its experiment and its run. ("4", "poisson", "seed 0"), ("3", "poisson",
    "seed 1") and ("4", "other", "seed 0") become "4 (poisson seed 0; other); 3 (poisson seed 1)":
    one fact is true of all of `other`, so its runs are not named.
    """
    owners: dict[str, dict[str, list[str]]] = {}
    for fact, experiment, run in facts:
        owners.setdefault(fact, {}).setdefault(experiment, []).append(run)
    if len(owners) < 2:
        return next(iter(owners), "")
    experiments = [experiment for runs in owners.values() for experiment in runs]

    def name(experiment: str, runs: Sequence[str]) -> str:
        whole = experiments.count(experiment) == 1
        return experiment if whole else f"{experiment} {', '.join(dict.fromkeys(runs))}"

    return "; ".join(
        f"{fact} ({'; '.join(name(*one) for one in runs.items())})" for fact, runs in owners.items()
    )


def what_is_measured(groups: Sequence[Group], measure: str) -> str:
    """Norm, units and mean as a sentence, once for all experiments."""
    parts = [_parts(one, measure)[0] for group in groups for one in group.evaluations]
    text = "; ".join(dict.fromkeys(parts))
    return f"{text[:1].upper()}{text[1:]}."


def where_measured(
    groups: Sequence[Group], measure: str, variants: Collection[str] | None = None
) -> str:
    """Points and draws of some variants, or of all; where they differ, with the runs of each."""
    facts = []
    for group in groups:
        own = _of(group, variants)
        places = {(one.variant, _parts(one, measure)[1]) for one in own}
        several = [variant for variant, _ in places]
        for one in own:
            alike = several.count(one.variant) == 1
            run = one.variant if alike else f"{one.variant} seed {one.seed}"
            facts.append((_parts(one, measure)[1], group.experiment, run))
    return facts_by_owner(facts)


def measured_alike(group: Group, measure: str, variants: Collection[str] | None = None) -> bool:
    """Whether all were measured on equally many points and draws."""
    return len({_parts(one, measure)[1] for one in _of(group, variants)}) < 2


def _of(group: Group, variants: Collection[str] | None) -> list[Evaluation]:
    return [one for one in group.evaluations if variants is None or one.variant in variants]


def _parts(one: Evaluation, measure: str) -> tuple[str, str]:
    """The definition of a measure in two parts: what the number is, and on which points.

    "relative L1 (p, u); test split, 512 points; 4 draws" gives "relative L1" and "512 points, 4
    draws".
    """
    whole = definition_of(one, measure)
    what, _, where = whole.partition(f"; {one.protocol.split} split, ")
    named = ", ".join(str(n.variable) for n in one.numbers if n.measure == measure)
    return what.replace(f" ({named})", ""), where.replace("; ", ", ")
