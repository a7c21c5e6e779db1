from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slipstream.audit.run_audit import audit_run
from slipstream.data.benchmarks import BENCHMARKS
from slipstream.data.store import Cloud, Store, data_hash, ingest, open_store
from slipstream.evaluation.force_reference import FlowReference
from slipstream.physics.builtin import builtin_config, builtin_source
from slipstream.runs.checkpoint import read_tensors, weights_hash, write_tensors
from slipstream.runs.folder import RunFolder
from slipstream.runs.make_recipe import WINDOW, add_recipe, form_of, make_recipe
from slipstream.runs.model_file import load_model, model_path
from slipstream.runs.recipe import (
    ArraySource,
    ComputedSource,
    Density,
    GivenSource,
    ParameterSource,
    Recipe,
)

from ..data.mesh_folders import pressure
from . import carded
from .carded import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("recipe"))


@pytest.fixture(scope="module")
def recipe(run: Path) -> Recipe:
    found = load_model(run).recipe
    assert found is not None
    return found


def test_a_model_knows_the_card_of_its_data(run: Path, recipe: Recipe) -> None:
    assert recipe.data.source == "balls" and recipe.data.made_by == "card"
    assert recipe.data.samples == 3
    assert recipe.data.data_hash == data_hash(open_store(run.parent / "store"))
    assert recipe.location == "point" and recipe.domain == "surface" and recipe.patches == ()
    assert recipe.files == {"mesh": "run_{id}/ball.vtp", "body": "body.stl"}
    made = {feature.name: feature.made for feature in recipe.features}
    assert made == {
        "normal": ComputedSource("computed", "normals", None),
        "gap": ComputedSource("computed", "distance", "body"),
        "height": ArraySource("array", "mesh", ("h",), 1, "point", (0.0,), 2.0),
        "speed": ParameterSource("parameter", "U", "designs.csv"),
        "rho": ParameterSource("parameter", "rho", "designs.csv"),
    }
    assert [feature.name for feature in recipe.parameters] == ["speed", "rho"]
    speed = recipe.feature("speed")
    assert (speed.unit, speed.components, speed.low, speed.high) == ("m/s", 1, (20.0,), (22.0,))
    assert recipe.density == Density("rho", float(np.float32(1.2))) and recipe.speed == ("speed",)
    assert recipe.reference is None


def test_reference_values_of_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "reference: {density: 1.3, speed: speed, area: 2, drag: [0, 1, 0], mirror: x}\n"
    monkeypatch.setattr(carded, "CARD", carded.CARD + said)
    recipe = make_recipe(carded.make_store(tmp_path), None)
    expected = {"density": 1.3, "speed": "speed", "area": 2.0, "drag": (0.0, 1.0, 0.0)}
    assert recipe.reference == {**expected, "mirror": "x"}
    again = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert again.reference == recipe.reference
    got = FlowReference.of(again.reference, {"speed": 22.0}, length=3)
    assert got == FlowReference(1.3, 22.0, 2.0, 3.0, (0.0, 1.0, 0.0), mirror="x")


def test_its_targets_can_be_found_in_a_mesh(recipe: Recipe) -> None:
    p, tau, cp = recipe.targets
    assert p.array == ArraySource("array", "mesh", ("p",), 1, "point", (5.0,), 1.0)
    assert (p.quantity, p.form, p.divided) == ("pressure", "kinematic", None)
    assert (tau.quantity, tau.form, tau.components) == ("shear", "dimensional", 3)
    assert cp.divided is not None and (cp.unit, cp.undivided_unit) == ("1", "Pa")
    assert (cp.quantity, cp.form) == ("pressure", "dimensional"), "predictions are undivided"


def test_numbers_of_the_training_split(run: Path, recipe: Recipe) -> None:
    store = open_store(run.parent / "store")
    rows = [np.asarray(store.array(sample)) for sample in store.ids("train")]
    places = [part[:, :3].astype(float) for part in rows]
    everything = np.concatenate(rows)
    assert recipe.coords.low == tuple(everything[:, :3].min(0).tolist())
    assert recipe.coords.high == tuple(everything[:, :3].max(0).tolist())
    assert recipe.coords.low[0] == pytest.approx(-2.2, abs=0.05), "1 is subtracted"
    assert recipe.coords.subtract == (1.0, 0.0, 0.0)
    assert recipe.coords.box == ((-9.0, None, -9.0), (9.0, None, 9.0))
    assert recipe.coords.names == ("position",) and recipe.coords.units == ("m",)
    for one in (*recipe.features, *recipe.targets):
        columns = everything[:, store.schema.columns(one.name)]
        assert one.low == tuple(columns.min(0).tolist())
        assert one.high == tuple(columns.max(0).tolist())
    highest = pressure(places[2] + [1, 0, 0]).max()
    assert recipe.target("p").high[0] == pytest.approx(highest - 5, rel=1e-4)
    points = recipe.points
    assert (points.sample.least, points.sample.median, points.sample.most) == (162,) * 3
    assert (points.draw.least, points.draw.median, points.draw.most) == (81,) * 3
    sizes = [float(np.linalg.norm(np.ptp(part, axis=0))) for part in places]
    assert (points.smallest, points.largest) == pytest.approx((min(sizes), max(sizes)))
    assert points.exact and points.dimension == 2
    assert points.sample_spacing == pytest.approx(_nearest(places[1]))
    assert points.draw_spacing == pytest.approx(_nearest(places[1][:81]))


def _nearest(points: Any) -> float:
    """The median over the points of the distance to the nearest other one."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return float(np.median((distances + 1e9 * np.eye(len(points))).min(1)))


def test_it_is_the_same_whenever_it_is_made_and_read(run: Path, recipe: Recipe) -> None:
    store = open_store(run.parent / "store")
    before = torch.get_rng_state()
    assert make_recipe(store, 0.5) == recipe
    assert torch.equal(torch.get_rng_state(), before), "training draws what it drew without it"
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe
    recipe.check(store.schema)


def test_built_in_data(tmp_path: Path) -> None:
    surface = _builtin(tmp_path, "potential-flow-surface", panels=160)
    assert surface.location is None and surface.domain == "surface"
    assert surface.data.made_by == "program" and surface.files == {}
    assert surface.feature("normal").made == ComputedSource("computed", "normals", None)
    stream = surface.feature("freestream")
    assert stream.is_parameter and surface.speed == ("freestream",)
    cp = surface.target("pressure_coefficient")
    assert (cp.array, cp.quantity, cp.form) == (None, "pressure", "coefficient")
    slow = _builtin(tmp_path, "stokes-surface", panels=80)
    stresses = [(target.quantity, target.form, target.undivided_unit) for target in slow.targets]
    assert stresses == [("pressure", "dimensional", "Pa"), ("shear", "dimensional", "Pa")]
    poisson = _builtin(tmp_path, "poisson")
    assert poisson.feature("density").made == GivenSource("given") and poisson.density is None
    assert poisson.points.dimension == 3 and poisson.domain is None
    pairs = _builtin(tmp_path, "taylor-green", grid=8, modes=2, states=3)
    kinds = {one.name: one.made.kind for one in pairs.features}
    assert kinds == {"velocity": "given", "lead_time": "parameter", "viscosity": "parameter"}
    spacing = pairs.points.sample_spacing
    assert spacing == pytest.approx(1 / 4), "the points of a grid"


def _builtin(folder: Path, problem: str, **settings: Any) -> Recipe:
    config = builtin_config(problem, settings)
    ingest(builtin_source(problem, samples=4, points=64, config=config), folder / problem)
    return make_recipe(open_store(folder / problem), None)


def test_published_benchmarks(tmp_path: Path) -> None:
    wing = _published(tmp_path, "shift-wing-surface")
    assert wing.location == "point" and wing.domain == "surface"
    assert wing.data.made_by == "benchmark"
    made = wing.feature("freestream_air_density").made
    assert made == ParameterSource("parameter", "air_density", None)
    assert wing.density == Density("freestream_air_density", None)
    assert wing.speed == tuple(f"freestream_velocity_{axis}" for axis in "xyz")
    shear = wing.target("wall_shear_stress")
    assert shear.array is not None and shear.array.arrays == ("Wall Shear Stress*",)
    suv = _published(tmp_path, "shift-suv-volume")
    assert suv.feature("distance").made == ComputedSource("computed", "distance", None)
    assert suv.target("pressure").array is not None and suv.domain == "volume"
    assert suv.target("pressure").array.subtract == (101325.0,)
    assert suv.target("velocity").array.subtract == (0.0,)  # type: ignore[union-attr]
    car = _published(tmp_path, "drivaerml-surface")
    assert car.location == "cell" and car.coords.box is not None
    assert car.target("pressure").form == "kinematic"
    ends = car.coords.low, car.coords.high
    assert all(0 <= x <= 1 for end in ends for x in end), "of the random numbers"
    assert car.density is not None and car.density.feature == "freestream_air_density"


def _published(folder: Path, name: str) -> Recipe:
    """Of random numbers in the fields of a benchmark, with its options."""
    real = BENCHMARKS[name].source(folder)
    schema = real.schema

    class Random:
        def __init__(self) -> None:
            self.name, self.schema, self.options = name, schema, real.options

        def ids(self) -> list[str]:
            return ["a", "b"]

        def splits(self) -> dict[str, list[str]]:
            return {"train": ["a"], "val": ["b"]}

        def files(self, sample: str) -> dict[str, Path]:
            return {}

        def read(self, sample: str) -> Cloud:
            rows = np.random.default_rng(0).random((20, schema.width))
            arrays = {f.name: rows[:, schema.columns(f.name)] for f in schema.fields}
            return Cloud(schema, arrays)

    ingest(Random(), folder / name)
    return make_recipe(open_store(folder / name), None)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("edge", [12, 41, 300])
def test_spacing_of_lattices(axes: int, edge: int) -> None:
    """A sheet or a block of points 0.5 apart, in random order: exact while all are read, else
    within the factor of 2.1 or 1.8 that the recipe tells."""
    edge = min(edge, 64) if axes == 3 else edge
    grid = np.stack(np.meshgrid(*[np.arange(edge) * 0.5] * axes, indexing="ij"), -1)
    places = np.pad(grid.reshape(-1, axes), ((0, 0), (0, 3 - axes)))
    places = np.random.default_rng(0).permutation(places)
    points = make_recipe(_InMemory(places), len(places) // 4).points
    assert points.exact == (len(places) <= WINDOW)
    assert points.dimension == (axes if len(places) >= 16384 else 3)
    spacing = points.sample_spacing
    assert spacing is not None and points.draw_spacing is not None
    if points.exact:
        assert spacing == pytest.approx(0.5, rel=1e-6)
    else:
        assert 0.5 / (2.13 if axes == 2 else 1.82) <= 1.03 * spacing <= 0.5 * 1.03
    assert spacing <= points.draw_spacing


def test_points_at_one_place_count_once_and_one_point_has_no_spacing() -> None:
    twice = np.repeat(np.random.default_rng(0).random((40, 3)), 2, 0)
    found = make_recipe(_InMemory(twice), None).points.sample_spacing
    assert found == pytest.approx(_nearest(twice[::2].astype(np.float32).astype(float)), rel=1e-5)
    assert make_recipe(_InMemory(np.ones((1, 3))), None).points.sample_spacing is None


class _InMemory(Store):
    """A store of one sample with coordinates and a target, without files."""

    def __init__(self, places: Any) -> None:
        from slipstream.data.store import Field, Manifest, Schema, Statistics
        from slipstream.data.store.manifest import Origin, SampleEntry

        schema = Schema((Field("position", "m", components=3),), (), (Field("t"),))
        self._rows = np.pad(places, ((0, 0), (0, 1))).astype(np.float32)
        ends = (tuple(map(float, getattr(self._rows, end)(0))) for end in ("min", "max"))
        known = Statistics(len(places), (0.0,) * 4, (0.0,) * 4, *ends)
        entry = SampleEntry(len(places), 1, 0, known)
        origin = Origin(schema, "lattice", {}, 0)
        super().__init__(Path("x"), Manifest(origin, {"train": ("a",)}, {"a": entry}, {}, known))

    def read_spans(self, sample: str, spans: Any, out: Any) -> None:
        ((first, end),) = spans
        out[:] = self._rows[first:end]


@pytest.mark.parametrize(
    ("unit", "form"),
    [
        ("m^2/s^2", "kinematic"), ("m2/s2", "kinematic"), ("m²/s²", "kinematic"),
        ("m^2 s^-2", "kinematic"), ("Pa", "dimensional"), ("N/m^2", "dimensional"),
        ("1", "coefficient"), ("K", "unknown"), ("", "unknown"),
    ],
)  # fmt: skip
def test_units_say_what_is_divided_by_the_density(unit: str, form: str) -> None:
    assert form_of(unit) == form


@pytest.fixture
def older(run: Path, tmp_path: Path) -> Path:
    """A run whose model file is of an older version."""
    copied = Path(shutil.copytree(run, tmp_path / "run"))
    header, tensors = read_tensors(copied / "model.safetensors", "model")
    kept = {key: value for key, value in header.items() if key != "recipe"}
    write_tensors(copied / "model.safetensors", "model", kept, tensors)
    return copied


def test_older_files_load_and_are_given_the_recipe(run: Path, older: Path, recipe: Recipe) -> None:
    assert load_model(older).recipe is None
    file, store = model_path(older), open_store(run.parent / "store")
    before, weights = read_tensors(file, "model")
    findings = audit_run(older).findings
    assert add_recipe(file, store) == recipe == load_model(older).recipe
    after, same = read_tensors(file, "model")
    assert weights_hash(same) == weights_hash(weights)
    kept = {key: value for key, value in after.items() if key not in ("recipe", "content")}
    assert kept == {key: value for key, value in before.items() if key != "content"}
    assert audit_run(older).findings == findings and all(found.holds for found in findings)
    with pytest.raises(ValueError, match="must be a model file without a recipe, got one with it"):
        add_recipe(file, store)


def test_a_recipe_of_other_data_is_not_added(older: Path, run: Path, tmp_path: Path) -> None:
    ingest(builtin_source("poisson", samples=4, points=16), tmp_path / "other")
    before = model_path(older).read_bytes()
    with pytest.raises(ValueError, match="must hold the data that .* was trained on, hash"):
        add_recipe(model_path(older), open_store(tmp_path / "other"))
    with RunFolder(older).locked(), pytest.raises(ValueError, match="must not be in use"):
        add_recipe(model_path(older), open_store(run.parent / "store"))
    assert model_path(older).read_bytes() == before


def _rename(value: Any) -> None:
    value["features"][0]["name"] = "other"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_rename, r"recipe.features must be normal \[1\] x 3, .* got other \[1\] x 3"),
        (lambda r: r["targets"].pop(), "recipe.targets must be p .* cp .* got p "),
        (lambda r: r["coords"].update(names=["x"]), "coords.names must be position, got x"),
        (lambda r: r["coords"].update(units=[]), "coords.units must be 1, got 0"),
        (lambda r: r["coords"]["low"].pop(), "low of coords must be 3 numbers, got 2"),
        (lambda r: r["targets"][1].update(high=[]), "high of tau must be 3 numbers, got 0"),
        (lambda r: r["features"][1]["made"].update(file="x"), "one of mesh, body, got 'x'"),
        (lambda r: r["targets"][0]["array"].update(file="x"), "one of mesh, body, got 'x'"),
        (lambda r: r["density"].update(feature="x"), "one of normal, gap, .* got 'x'"),
        (lambda r: r.update(speed=["x"]), "one of normal, gap, .* got 'x'"),
        (lambda r: r["targets"][2].update(divided=None), "cp must be divided by 0.5 rho speed"),
        (lambda r: r.update(schema=2), "at most 1, got 2: a newer slipstream wrote it"),
        (lambda r: r.update(location="edge"), "recipe.location must be one of point, cell"),
        (lambda r: r["features"][0]["made"].update(kind="x"), "made"),
    ],
)
def test_damaged_recipes_are_one_sentence(
    run: Path, tmp_path: Path, change: Callable[[Any], None], sentence: str
) -> None:
    header, tensors = read_tensors(run / "model.safetensors", "model")
    header = copy.deepcopy(header)
    change(header["recipe"])
    write_tensors(tmp_path / "model.safetensors", "model", header, tensors)
    with pytest.raises(ValueError, match=sentence) as raised:
        load_model(tmp_path)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 600
