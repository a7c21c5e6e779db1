"""Bodies in three dimensions in a stream: which there may be, and the case of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.core.checks import check_at_least, check_choice, check_whole
from slipstream.core.files import sha256_of
from slipstream.core.runtime import generator
from slipstream.data.geometry import open_edges, places
from slipstream.data.meshes import read_mesh
from slipstream.physics.bodies import FAMILIES, draw_body
from slipstream.physics.openfoam.body_mesh import (
    BODY,
    BODY_FILE,
    COMMANDS,
    FAR,
    Box,
    write_mesh_dictionaries,
)
from slipstream.physics.openfoam.case_config import CaseConfig
from slipstream.physics.openfoam.cases import CaseFacts
from slipstream.physics.openfoam.solver_setup import (
    K_OMEGA_SST,
    Coefficients,
    Stream,
    Walls,
    write_control,
    write_fields,
    write_models,
    write_numerics,
)
from slipstream.physics.openfoam.surface_files import write_stl

AREA, LENGTH = 1.0, 1.0
"""That forces and moments are divided by, in m^2 and m, whatever the body; moments are about the
origin. The frontal area is kept with the case."""
_FREQUENCY = 24
"""Of the icosphere that a drawn body is made from: 11,520 triangles."""


@dataclass(frozen=True, kw_only=True)
class BodyFlow(CaseConfig):
    """Which samples there may be; all draws are uniform within the ranges."""

    bodies: tuple[str, ...] = ()
    """Paths of closed surfaces in m (STL and other meshes), one of which each sample has; none: a
    smooth body of `families` is drawn."""
    families: tuple[str, ...] = tuple(FAMILIES)
    """Shapes a body is drawn from."""
    amplitude: float = 0.1
    """Root mean square of the logarithm of a body's radius over that of its ellipsoid."""
    incidence: tuple[float, float] = (-5.0, 5.0)
    speed: tuple[float, float] = (20.0, 40.0)
    coarse: int = 10
    """Cells of the background on the length of the body."""
    level: int = 3
    """How often they are halved at the body."""
    iterations: int = 200
    residual: float = 5e-3
    steadiness: float = 0.02
    window: int = 50
    seconds: float = 3600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.families:
            raise ValueError(f"families must name at least one of {', '.join(FAMILIES)}, got none")
        for family in self.families:
            check_choice("families", family, FAMILIES)
        check_at_least("amplitude", self.amplitude, 0)
        check_whole("coarse", self.coarse, 1)
        check_whole("level", self.level, 1)


@dataclass(frozen=True, eq=False)
class DrawnBody:
    """One sample: its surface in the axes of the stream, and the stream."""

    points: NDArray[np.float64]
    triangles: NDArray[np.int64]
    name: str
    incidence: float
    speed: float

    @property
    def frontal_area(self) -> float:
        """Half of the area projected along the stream, which both sides of a body have; a dent
        counts twice."""
        a, b, c = (self.points[self.triangles[:, k]] for k in range(3))
        return float(np.abs(np.cross(b - a, c - a)[:, 0]).sum() / 4)


def inputs(config: BodyFlow) -> dict[str, Any]:
    """What samples depend on besides the config: the content of the files of bodies."""
    return {Path(name).name: sha256_of(Path(name)) for name in config.bodies}


def draw(config: BodyFlow, *, seed: int, sample: int) -> DrawnBody:
    """A sample, as a pure function of its arguments and the files of bodies."""
    random = generator(seed, "openfoam-body", sample)
    first, second, third = torch.rand(3, generator=random, dtype=torch.float64).tolist()
    incidence, speed = (
        low + (high - low) * share
        for share, (low, high) in ((first, config.incidence), (second, config.speed))
    )
    names = config.bodies or config.families
    name = names[int(third * len(names))]
    if config.bodies:
        points, triangles = _read_body(Path(name))
    else:
        mesh = draw_body(name, config.amplitude, random).mesh(_FREQUENCY)
        points, triangles = mesh.vertices.numpy(), mesh.faces.numpy()
    angle = np.radians(incidence)
    x, y, z = points.T
    turned = (x * np.cos(angle) + z * np.sin(angle), y, z * np.cos(angle) - x * np.sin(angle))
    return DrawnBody(np.stack(turned, 1), triangles, name, incidence, speed)


def _read_body(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """ValueError where a file is no closed surface."""
    points, triangles = read_mesh(path).triangles()
    if not len(triangles):
        raise ValueError(f"{path} must be a surface, got no triangles")
    edges = open_edges(places(points)[triangles])
    if len(edges):
        raise ValueError(f"{path} must be a closed surface, got {len(edges):,} open edges")
    return np.asarray(points, np.float64), np.asarray(triangles, np.int64)


def write_case(config: BodyFlow, case: Path, *, seed: int, sample: int) -> CaseFacts:
    """Everything but the mesh and the solution."""
    drawn = draw(config, seed=seed, sample=sample)
    write_stl(case / BODY_FILE, drawn.points, drawn.triangles)
    surface = case / "constant" / "triSurface" / BODY_FILE
    surface.parent.mkdir(parents=True)
    write_stl(surface, drawn.points, drawn.triangles)
    box = Box(drawn.points.min(0), drawn.points.max(0))
    write_mesh_dictionaries(case, box, coarse=config.coarse, level=config.level)
    stream = Stream(speed=drawn.speed, viscosity=config.viscosity, model=K_OMEGA_SST)
    walls = Walls(body=BODY, far=FAR, others={})
    write_fields(case, stream, walls)
    write_models(case, stream)
    reference = Coefficients(area=AREA, length=LENGTH, centre=(0.0, 0.0, 0.0))
    write_control(case, stream, walls, reference, config.iterations)
    write_numerics(case, stream, rough=True)
    return CaseFacts(
        parameters={"speed": drawn.speed, "incidence": drawn.incidence},
        described={
            "body": drawn.name,
            "length": box.length,
            "frontal_area": drawn.frontal_area,
        },
        reynolds=drawn.speed * box.length / config.viscosity,
        patch=BODY,
        commands=COMMANDS,
    )
