from __future__ import annotations

from pathlib import Path

import pytest
import torch

from slipstream.data.store import open_store
from slipstream.evaluation.measure import (
    MeasuredErrors,
    OnSample,
    definitions,
    make_dataset,
    measure,
    variables,
)
from slipstream.evaluation.run_evaluation import open_data_of
from slipstream.metrics import Errors, relative_error
from slipstream.runs.evaluation_file import Number, Protocol
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import TrainedModel, load_model


@pytest.fixture
def trained(made_study: Path) -> TrainedModel:
    return load_model(made_study / "runs/poisson/baseline/seed-0")


def measured(
    trained: TrainedModel, protocol: Protocol, progress: OnSample = lambda done, total: None
) -> MeasuredErrors:
    assert trained.config.data.store is not None
    store = open_store(trained.config.data.store)
    return measure(trained, make_dataset(store, trained, protocol), protocol, progress)


def number(found: MeasuredErrors, name: str, variable: str | None = None) -> Number:
    return next(n for n in found.numbers() if (n.measure, n.variable) == (name, variable))


def test_on_the_validation_split_the_composite_is_the_validation_error(
    trained: TrainedModel,
) -> None:
    found = measured(trained, Protocol(split="val"))
    assert number(found, "composite").mean == pytest.approx(trained.metric["error"], rel=1e-6)
    for group, value in trained.metric["by_group"].items():
        assert number(found, "composite", group).mean == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(("name", "order"), [("L1", 1), ("L2", 2)])
def test_variables_are_measured_in_physical_units(
    trained: TrainedModel, name: str, order: int
) -> None:
    assert trained.config.data.store is not None
    store, found = open_store(trained.config.data.store), measured(trained, Protocol(full=True))
    by_hand = []
    for sample in store.ids("test"):
        rows = torch.from_numpy(store.array(sample).copy())[None]
        answer = trained(rows[..., :3], rows[..., 3:4])
        groups = {"field": (1, 2, 3)}
        by_hand.append(relative_error(answer, rows[..., 4:], groups, order=order).item())  # type: ignore[arg-type]
    assert number(found, name, "field").mean == pytest.approx(sum(by_hand) / 5, rel=1e-5)


def test_samples_taken_together_have_the_errors_they_have_alone(
    trained: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    told: list[tuple[int, int]] = []
    for points in (1, 10**6):
        monkeypatch.setattr("slipstream.evaluation.measure.POINTS_AT_ONCE", points)
        told.clear()
        one = measured(trained, Protocol(repeats=2), lambda *place: told.append(place))
        found.append(one.samples())
        assert told[-1][0] == told[-1][1] == 2 * len(found[-1])
        assert len(told) == (2 if points > 1 else told[-1][1])
    assert found[0].keys() == found[1].keys()
    for sample, numbers in found[0].items():
        assert numbers == pytest.approx(found[1][sample], rel=1e-5)


def test_repeats_draw_other_points(trained: TrainedModel) -> None:
    found = measured(trained, Protocol(repeats=3))
    composite = number(found, "composite")
    assert len(set(composite.repeats)) == 3 and composite.std is not None and composite.std > 0
    assert composite.relative_std == composite.std / composite.mean  # type: ignore[operator]
    assert composite.repeats[0] == number(measured(trained, Protocol()), "composite").mean
    sample, own = next(iter(found.samples().items()))
    rows = [errors.samples[sample] for errors in found.errors["composite"]]
    assert own["composite"] == pytest.approx(sum(value or 0 for row in rows for value in row) / 6)
    fields = [errors.samples[sample][1] for errors in found.errors["L2"]]
    assert own["L2 field"] == pytest.approx(sum(value or 0 for value in fields) / 3)
    assert set(own) == {number.name for number in found.numbers()}


def test_where_a_sample_is_taken_whole_nothing_is_repeated() -> None:
    assert Protocol(repeats=6).on(256) == Protocol(repeats=6)
    assert Protocol(repeats=6).on(0.5) == Protocol(repeats=6)
    assert Protocol(repeats=6).on(None) == Protocol(repeats=6).on(1.0) == Protocol(full=True)
    assert Protocol(repeats=6).on(1) == Protocol(repeats=6), "one point"
    assert Protocol(repeats=6, full=True).on(256) == Protocol(full=True)


def errors_of(**samples: float) -> MeasuredErrors:
    made = Errors(("y",), {name: (value,) for name, value in samples.items()})
    return MeasuredErrors({"composite": (made,), "L1": (made,), "L2": (made,)})


def test_the_median_sample() -> None:
    assert errors_of(a=3.0, b=1.0, c=2.0).median_sample() == "c"
    assert errors_of(a=3.0, b=1.0, c=2.0, d=4.0).median_sample() == "c", "of two, the lower"
    assert errors_of(a=3.0, b=1.0, c=float("nan")).median_sample() == "b"
    assert errors_of(a=3.0, b=1.0, c=0.0).median_sample(among=1) == "a"
    with pytest.raises(ValueError, match="finite errors on some sample, got none"):
        errors_of(a=float("nan")).median_sample()


def test_a_number_that_is_not_finite_once_has_no_mean() -> None:
    found = Number.of("L1", "p", (1.0, None))
    assert found.mean is None and found.std is None and found.relative_std is None
    assert Number.of("L1", "p", (2.0,)).std is None and Number.of("L1", "p", (2.0,)).mean == 2.0
    assert next(iter(errors_of(a=float("inf")).numbers())).repeats == (None,)


def test_definitions_say_what_was_measured(trained: TrainedModel) -> None:
    schema = trained.schema
    assert variables(schema) == {"potential": (0,), "field": (1, 2, 3)}
    said = definitions(schema, Protocol(repeats=6), 0.03)
    assert "normalised targets" in said["composite"] and "test split" in said["composite"]
    assert "0.03 of the points" in said["L1"] and "6 independent draws" in said["L1"]
    assert "root" in said["L2"] and "potential, field" in said["L2"]
    assert "all points" in definitions(schema, Protocol(full=True), 16)["L1"]


def test_a_split_without_samples(made: Path) -> None:
    """The run `made` has no test split."""
    trained = load_model(made)
    store = open_data_of(trained, None, RunFolder(made))
    with pytest.raises(ValueError, match="samples in its split 'test', got train, val"):
        make_dataset(store, trained, Protocol())
