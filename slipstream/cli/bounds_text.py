"""What `slipstream predict` says about bounds of errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipstream.evaluation.calibration import percent
from slipstream.inference.bounds import Bounds
from slipstream.inference.many import MeshResult

_LIKE_THEM = "A mesh with a warning may not be like those of the calibration."

_NAMED = 3
_UNLIKE = "The bounds are no promise for meshes that are not like the training"


def field_cells(bounds: Bounds | None) -> dict[str, str]:
    """A column for each field that has a bound."""
    if bounds is None:
        return {}
    return {
        f"error of {name}, {percent(bounds.level)}": f"at most {bound.value:.3g}"
        for name, bound in bounds.fields.items()
        if bound.value is not None
    }


def half_width(bounds: Bounds | None, coefficient: str) -> str:
    """What stands behind a coefficient: " ± 0.021", or nothing."""
    bound = None if bounds is None else bounds.coefficients.get(coefficient)
    return "" if bound is None or bound.value is None else f" ± {bound.value:.2g}"


def bounds_sentences(several: Sequence[Bounds | None]) -> Iterator[str]:
    """What is promised, and why numbers have no bound, each once."""
    known = [bounds for bounds in several if bounds is not None]
    sentences: dict[str, None] = {}
    for bounds in known:
        numbers = {**bounds.fields, **{n.capitalize(): b for n, b in bounds.coefficients.items()}}
        if any(bound.value is not None for bound in numbers.values()):
            sentences[f"{bounds.promise} {_LIKE_THEM}"] = None
        for name, bound in numbers.items():
            if bound.value is None:
                sentences[f"No bound of {name} with {percent(bounds.level)}: {bound.reason}."] = (
                    None
                )
        if bounds.reason:
            sentences[bounds.reason] = None
    yield from sentences


def unlike_sentences(results: Sequence[MeshResult]) -> Iterator[str]:
    """For which meshes bounds that were shown do not hold."""
    names = [
        result.name
        for result in results
        if result.likeness is not None and not result.likeness.like and _has_bounds(result.bounds)
    ]
    if names:
        some = ", ".join(names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{_UNLIKE}: {some}{more}."


def _has_bounds(bounds: Bounds | None) -> bool:
    several = () if bounds is None else (*bounds.fields.values(), *bounds.coefficients.values())
    return any(bound.value is not None for bound in several)
