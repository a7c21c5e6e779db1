"""What captions say of numbers that need not all be measured alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from slipstream.evaluation.summary import definition_of
from slipstream.reports.study.settings import Group
from slipstream.runs.evaluation_file import Evaluation


def told(facts: Iterable[tuple[str, str, str]]) -> str:
    """Facts, of an experiment and of somebody in it: each once, and where they differ, of whom.

    As "4 (poisson seed 0; other); 3 (poisson seed 1)".
    """
    found: dict[str, dict[str, list[str]]] = {}
    for fact, experiment, who in facts:
        found.setdefault(fact, {}).setdefault(experiment, []).append(who)
    if len(found) < 2:
        return next(iter(found), "")
    shared = [experiment for owners in found.values() for experiment in owners]

    def name(experiment: str, members: Sequence[str]) -> str:
        whole = shared.count(experiment) == 1
        return experiment if whole else f"{experiment} {', '.join(dict.fromkeys(members))}"

    return "; ".join(
        f"{fact} ({'; '.join(name(*owner) for owner in owners.items())})"
        for fact, owners in found.items()
    )


def what_is_measured(groups: Sequence[Group], measure: str) -> str:
    """Norm, units and mean, told once for all experiments; as a sentence."""
    parts = [_parts(one, measure)[0] for group in groups for one in group.evaluations]
    text = "; ".join(dict.fromkeys(parts))
    return f"{text[:1].upper()}{text[1:]}."


def where_measured(
    groups: Sequence[Group], measure: str, variants: Collection[str] | None = None
) -> str:
    """Points and draws of some variants, or of all; where they differ, of whom each is."""
    facts = []
    for group in groups:
        own = _of(group, variants)
        places = {(one.variant, _parts(one, measure)[1]) for one in own}
        several = [variant for variant, _ in places]
        for one in own:
            alike = several.count(one.variant) == 1
            who = one.variant if alike else f"{one.variant} seed {one.seed}"
            facts.append((_parts(one, measure)[1], group.experiment, who))
    return told(facts)


def measured_alike(group: Group, measure: str, variants: Collection[str] | None = None) -> bool:
    """Whether all were measured on as many points and draws."""
    return len({_parts(one, measure)[1] for one in _of(group, variants)}) < 2


def _of(group: Group, variants: Collection[str] | None) -> list[Evaluation]:
    return [one for one in group.evaluations if variants is None or one.variant in variants]


def _parts(one: Evaluation, measure: str) -> tuple[str, str]:
    """Its definition: what the number is, without the names of variables; and on which points."""
    whole = definition_of(one, measure)
    what, _, where = whole.partition(f"; {one.protocol.split} split, ")
    named = ", ".join(str(n.variable) for n in one.numbers if n.measure == measure)
    return what.replace(f" ({named})", ""), where.replace("; ", ", ")
