"""Draw body.png: pressure on a body that a model has not seen, solved, predicted, and the error.

    python docs/pictures/body.py RUN

The body is drawn with a seed of its own. RUN is a model of Stokes flow, here the baseline after

    slipstream data make stokes-surface --samples 400 --points 1024 --out stores/stokes
    slipstream train stokes-surface --store stores/stokes --out RUN \
        --set steps=3600 --set data.points=256 --set optim.warmup=0.01
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import slipstream
from slipstream.physics.stokes_flow import Stokes, solve_scene
from slipstream.physics.stokes_meshes import write_mesh
from slipstream.reports.draw import style
from slipstream.reports.draw.canvas import surface_canvas
from slipstream.reports.draw.fields import colour_bar, error_scale, show_on, value_scale

SEED, SAMPLE = 2026, 1


def draw(run: Path, panels: int = 3380) -> Figure:
    flow = solve_scene(Stokes(panels=panels, families=("car",)), seed=SEED, sample=SAMPLE)
    with TemporaryDirectory() as folder:
        mesh = write_mesh(flow, Path(folder) / "body")
        predicted = slipstream.predict(run, mesh, location="cell", freestream=[1.0, 0.0, 0.0])
        drag = predicted.forces(area=1.0, density=1.0, speed=1.0).total[0]
    true = float(flow.forces.sum(0)[0])
    print(f"errors {predicted.errors}, drag {drag:.3f} N, solved {true:.3f} N")
    faces = flow.mesh.faces.numpy()
    pressure = predicted.truth["pressure"].ravel(), predicted.fields["pressure"].ravel()
    values = [at_points(faces, own) for own in (*pressure, np.abs(pressure[1] - pressure[0]))]
    canvas = surface_canvas(flow.mesh.vertices.float().numpy(), None, faces.astype(np.int32))
    titles = f"solved: drag {true:.2f} N", f"predicted: drag {drag:.2f} N", "where it is wrong"
    with style.figure_settings():
        figure = style.new_figure(style.PAGE, 1.75)
        axes = figure.subplots(1, 3)
        scale = value_scale(values[0])
        images = [show_on(axes[k], canvas, values[k], *scale) for k in (0, 1)]
        images.append(show_on(axes[2], canvas, values[2], *error_scale(values[2:])))
        for place, title in zip(axes, titles, strict=True):
            place.set_title(title, loc="center", fontsize=10)
            place.set_axis_off()
        for image, shown, panels, text in (
            (images[0], values[:2], axes[:2], "pressure, Pa"),
            (images[2], values[2:], axes[2:], "error of the pressure, Pa"),
        ):
            below: dict[str, Any] = {"location": "bottom", "aspect": 30, "shrink": 0.6}
            colour_bar(figure, image, shown, panels, **below).set_label(text)
    return figure


def at_points(faces: np.ndarray[Any, Any], cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The mean of the faces around each point."""
    corners, values = faces.ravel(), np.repeat(cells, 3)
    return np.bincount(corners, values) / np.bincount(corners)


if __name__ == "__main__":
    figure = draw(Path(sys.argv[1]))
    figure.savefig(
        Path(__file__).with_suffix(".png"), dpi=250, bbox_inches="tight", pad_inches=0.06
    )
