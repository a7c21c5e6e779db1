"""Audit of a run that starts from a trained model: where its initial values come from."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.audit.artefacts import Artefacts
from slipstream.audit.bits import same_bits
from slipstream.audit.certificate import Finding, finding_from, listed
from slipstream.data.batches import Normaliser
from slipstream.runs.config import InitialModel
from slipstream.runs.take_over import ADAPTED, take_over


def check_taken_over(run: Artefacts, initial: InitialModel) -> Finding:
    """The first checkpoint has the weights of the model that the config names.

    Those of lift and head are adapted to the store and compared within rounding, all others bit for
    bit. Where the file is gone, or holds other weights by now, a note says that it was not.
    """
    assert run.config and run.schema and run.first
    where = f"{initial.model}, weights {initial.weights[:12]}"
    if run.model is None:
        return finding_from("initial values", [], f"taken over from {where}", [_NO_MODEL])
    normaliser = Normaliser.from_json(run.model.state["normaliser"])
    try:
        taken = take_over(run.config, run.schema, normaliser)
    except (ValueError, OSError) as error:
        note = f"not compared with the model: {error}"
        return finding_from("initial values", [], f"said to be those of {where}", [note])
    saved = run.first.weights
    other = [
        name
        for name, value in taken.weights.items()
        if name in saved and not _same(name, saved[name], value)
    ]
    wrong = []
    if other:
        wrong.append(
            f"{len(other)} of {len(taken.weights)} parameters did not start at the values of"
            f" {where}: {listed(other)}"
        )
    notes = [sentence for sentence in taken.sentences(initial)[1:]]
    seen = f"all {len(taken.weights)} parameters started at the values of {where}"
    return finding_from("initial values", wrong, seen, notes)


_NO_MODEL = "not compared with the model: the run has no model file, whose normaliser it takes"


def _same(name: str, one: Tensor, other: Tensor) -> bool:
    if name in ADAPTED and one.shape == other.shape:
        return torch.allclose(one.double(), other.double(), rtol=1e-6, atol=1e-8)
    return same_bits(one, other)
