"""What `slipstream predict` says about how like the training its meshes are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipstream.inference.likeness import MeshLikeness, share
from slipstream.inference.many import MeshResult


def likeness_sentences(results: Sequence[MeshResult]) -> Iterator[str]:
    """One for each mesh; why there is no verdict is said once."""
    reasons: dict[str, None] = {}
    for result in results:
        likeness = result.likeness
        if likeness is None:
            continue
        if likeness.verdict is None:
            reasons.update(dict.fromkeys(likeness.reasons))
        else:
            yield f"{result.name}: {_sentence(likeness)}"
    for reason in reasons:
        yield f"{reason[:1].upper()}{reason[1:]}"


def _sentence(likeness: MeshLikeness) -> str:
    nearest = ", ".join(likeness.nearest)
    if likeness.verdict == "like training":
        return (
            f"like training: farther from it than {share(likeness.percentile or 0)} of"
            f" {likeness.compared}; nearest: {nearest}."
        )
    return f"{likeness.verdict}: {'; '.join(likeness.reasons)}."
