"""A report as a study would give it, from formulas: no run, no model, no data."""

from __future__ import annotations

import io
from collections.abc import Mapping

import matplotlib.image
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from slipstream.audit.certificate import Finding
from slipstream.reports.content import (
    Array,
    Cell,
    Definition,
    Fact,
    Opening,
    Panel,
    Picture,
    Report,
    RunCard,
    Scene,
    SceneField,
    Section,
    Table,
)

VARIANTS = {"baseline": 0.02, "no-token-attention": 0.025, "slice-once": 0.06, "mlp-only": 0.3}
"""How wrong each is."""
HOSTILE = "</script><b>x</b><img src=x onerror='window.hacked=1'>\"'&<!--<script>"
"""A name that must stay one."""


def predicted(
    name: str,
    unit: str,
    truth: NDArray[np.float64],
    coords: Array,
    variants: Mapping[str, float] = VARIANTS,
) -> SceneField:
    """A field whose variants are wrong in waves, each by its own amount."""
    waves = np.sin(5 * coords[:, 0] + len(name)) * np.cos(4 * coords[:, 1] + 3 * coords[:, 2])
    scale = float(np.ptp(truth)) / 2
    predictions = {
        v: (truth + scale * size * (waves + 0.3 * np.sin(40 * coords[:, 0] * size)))
        for v, size in variants.items()
    }
    errors = {v: np.abs(p - truth) for v, p in predictions.items()}
    return SceneField(
        name,
        unit,
        truth.astype(np.float32),
        {v: p.astype(np.float32) for v, p in predictions.items()},
        {v: e.astype(np.float32) for v, e in errors.items()},
        {v: float(e.sum() / np.abs(truth).sum()) for v, e in errors.items()},
    )


def sphere(count: int) -> NDArray[np.float64]:
    """Points spread evenly over the unit sphere."""
    height = 1 - (2 * np.arange(count) + 1) / count
    angle = np.pi * (1 + 5**0.5) * np.arange(count)
    wide = np.sqrt(1 - height**2)
    return np.stack([wide * np.cos(angle), wide * np.sin(angle), height], axis=1)


def surface(count: int = 3000, name: str = "ellipsoid 7") -> Scene:
    """An ellipsoid in a stream along x, with normals."""
    unit = sphere(count)
    axes = np.array([2.0, 0.8, 0.6])
    coords = (unit * axes + [1.0, 0, 0.5]).astype(np.float32)
    normals = unit / axes
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    pressure = 1 - 2.1 * (1 - normals[:, 0] ** 2) + 0.25 * normals[:, 2]
    fields = (
        predicted("pressure coefficient", "", pressure, coords),
        predicted("wall shear stress", "Pa", 1e-3 * (1 - normals[:, 0] ** 2), coords),
    )
    return Scene(
        name, "ellipsoids", "7", "surface", coords, "m", fields, normals.astype(np.float32)
    )


def volume(count: int = 4000, name: str = "Taylor-Green 3") -> Scene:
    """A vortex in a box that is half as high as wide."""
    coords = np.random.default_rng(0).uniform((-1, -1, 0), (1, 1, 1), (count, 3))
    x, y, z = np.pi * coords.T
    speed = 12 * np.abs(np.sin(x) * np.cos(y)) * np.cos(z / 2)
    pressure = 101325 + 80 * (np.cos(2 * x) + np.cos(2 * y)) * (np.cos(2 * z) + 2)
    where = coords.astype(np.float32)
    fields = (predicted("speed", "m/s", speed, where), predicted("pressure", "Pa", pressure, where))
    return Scene(name, "taylor-green", "3", "volume", where, "m", fields)


def mesh(side: int = 40, name: str = "hill") -> Scene:
    """A hill of triangles, without normals. One variant is not finite on a part of it."""
    u, v = np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side), indexing="ij")
    height = 0.5 * np.exp(-4 * (u**2 + v**2))
    coords = np.stack([u, v, height], axis=-1).reshape(-1, 3).astype(np.float32)
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    halves = [np.stack([corner, corner + side, corner + o], axis=1) for o in (side + 1,)]
    halves += [np.stack([corner, corner + side + 1, corner + 1], axis=1)]
    field = predicted("height", "m", height.ravel(), coords)
    field.predictions["mlp-only"][:100] = np.nan
    field.errors["mlp-only"][:100] = np.inf
    triangles = np.concatenate(halves).astype(np.int32)
    return Scene(name, "hills", "0", "surface", coords, "m", (field,), None, triangles)


def table(name: str = "main", columns: int = 4) -> Table:
    """Rows of variants, columns of experiments."""
    experiments = ("Poisson", "Taylor-Green", "Ellipsoids", "AirfRANS", "Elasticity", "Pipe")
    chosen = experiments[:columns]
    rows = tuple(
        (
            Cell(text=variant, kind="text"),
            *(
                Cell(0.0756 * (1 + 4 * size) * (1 + 0.2 * i), 0.0012, best=variant == "baseline")
                for i in range(len(chosen) - 1)
            ),
            Cell(text="failed") if variant == "mlp-only" else Cell(0.0311, 0.0004),
        )
        for variant, size in VARIANTS.items()
    )
    return Table(
        name,
        "Test error by variant",
        "Relative L1 error on the test split, mean and standard deviation over three seeds.",
        ("Variant", *chosen),
        rows,
        ("mlp-only on the last experiment failed: loss not finite at step 1,204.",),
    )


def picture(name: str = "curves", transparent: bool = False) -> Picture:
    """Curves as matplotlib draws them."""
    figure = Figure(figsize=(5.2, 2.9), layout="constrained")
    axes = figure.subplots()
    steps = np.linspace(1, 20, 60)
    for variant, size in VARIANTS.items():
        axes.plot(steps, size + np.exp(-steps / 4), label=variant)
    axes.set(xlabel="step [thousand]", ylabel="validation error", yscale="log")
    axes.legend(frameon=False)
    target = io.StringIO()
    figure.savefig(target, format="svg", transparent=transparent, metadata={"Date": None})
    title = "Validation error while training"
    return Picture(name, title, "One seed of each variant on ellipsoids.", target.getvalue())


def runs() -> tuple[RunCard, ...]:
    config = {"experiment": "ellipsoids", "model": {"variant": "baseline", "width": 64}, "seed": 0}
    facts = {
        "Parameters": "713,044",
        "Steps": "20,000",
        "Device": "NVIDIA H200",
        "Kernels": "fused slice and deslice, fp32",
        "Commit": "3f9c2d1",
    }
    checks = [
        Finding("finished", True, "all 20,000 steps were taken"),
        Finding(
            "weights",
            True,
            "the weights that were evaluated are those of the checkpoint",
            ("loaded on another device",),
        ),
    ]
    failing = [*checks, Finding("history", False, "steps must go up, got 800 after 900")]
    return (
        RunCard("ellipsoids/baseline/seed-0", "finished", facts, config, checks),
        RunCard("ellipsoids/slice-once/seed-0", "finished", facts, config),
        RunCard("ellipsoids/mlp-only/seed-0", "loss not finite at step 1,204", {}, config, failing),
    )


def opening() -> Opening:
    """Three pictures that are one grey square, and three facts."""
    file = io.BytesIO()
    matplotlib.image.imsave(file, np.full((80, 200, 4), 0.5), format="png")
    colours = ("#440154", "#21918c", "#fde725")
    shown = (
        Panel(title, "of this body", file.getvalue(), colours, ("0", "1", "2"), "pressure [Pa]")
        for title in ("Truth", "Prediction", "Where it is wrong")
    )
    facts = (
        Fact("31 ms", "is what the solver takes."),
        Fact("17 ms", "is what the model takes for the same 4,096 points."),
        Fact("14 %", "is the error to expect."),
    )
    return Opening("A body that no model has learned from.", tuple(shown), facts)


def definitions() -> tuple[Definition, ...]:
    return (
        Definition(
            "Relative L1 error",
            "The sum of absolute errors over all points of a sample, divided by the sum of the"
            " absolute values of the truth; averaged over samples.",
        ),
        Definition("Ratio", "The error of a variant divided by that of the baseline."),
        Definition("Spread", "The standard deviation over seeds, with one degree of freedom less."),
    )


def report(scenes: tuple[Scene, ...] = ()) -> Report:
    """A whole study, with these samples."""
    return Report(
        "What token attention is worth",
        "24 runs of 4 variants on 6 experiments, Slipstream 0.3.0, commit 3f9c2d1, 2 May 2025.",
        "Without attention among tokens the error grows by 2 ± 1 % on average, within the spread"
        " of seeds on four of six experiments; without slices it grows fivefold.",
        (
            Section(
                "Main result",
                "Every variant is trained for the same steps, on the same batches, from the same"
                " initial weights where it has them.\n\nThe best of a column is bold.",
                (table(), picture()),
            ),
            Section("Each experiment", "", (table("wide", 6), picture("again", transparent=True))),
        ),
        scenes,
        runs(),
        definitions(),
        (
            "ellipsoids/mlp-only/seed-0 failed: loss not finite at step 1,204.",
            "pipe/slice-once/seed-2 is missing: no run in the folder.",
        ),
    )


def hostile() -> Report:
    """The same bad name everywhere a name can be."""
    coords = sphere(300).astype(np.float32)
    field = predicted(HOSTILE, HOSTILE, coords[:, 0].astype(np.float64), coords, {HOSTILE: 0.1})
    scene = Scene(HOSTILE, HOSTILE, HOSTILE, "surface", coords, HOSTILE, (field,))
    row = (Cell(text=HOSTILE, kind="text"), Cell(0.5, best=True))
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>window.top.hacked = 1</script></svg>"
    items = (
        Table(HOSTILE, HOSTILE, HOSTILE, (HOSTILE, HOSTILE), (row,), (HOSTILE,)),
        Picture(HOSTILE, HOSTILE, HOSTILE, svg),
    )
    check = {"check": HOSTILE, "holds": False, "sentence": HOSTILE, "notes": [HOSTILE]}
    return Report(
        HOSTILE,
        HOSTILE,
        HOSTILE,
        (Section(HOSTILE, HOSTILE, items),),
        (scene,),
        (RunCard(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, {HOSTILE: HOSTILE}, [check]),),
        (Definition(HOSTILE, HOSTILE),),
        (HOSTILE,),
    )
