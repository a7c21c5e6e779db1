"""Cases of OpenFOAM as a source for a point store: every sample is solved, then read by a card.

The rows are the faces of the body or the cells of the mesh, as the solver wrote them. The store has
the card among its options, so that whatever works for a store of the user's own meshes works for
it: forces, predictions written back, training on its recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from slipstream.core.checks import check_choice, check_whole
from slipstream.core.configs import overlay
from slipstream.data.cards import Card, read_arrays, read_card
from slipstream.data.store import Cloud, Schema
from slipstream.physics.openfoam import airfoil_case, body_case
from slipstream.physics.openfoam.airfoil_case import AirfoilFlow
from slipstream.physics.openfoam.body_case import BodyFlow
from slipstream.physics.openfoam.body_mesh import BODY
from slipstream.physics.openfoam.card_text import card_text
from slipstream.physics.openfoam.cases import CaseFacts, Cases, read_facts, remove_unfinished
from slipstream.physics.openfoam.poly_mesh import WALL
from slipstream.physics.openfoam.program import find_openfoam, version_warning

ROWS = ("surface", "volume")


@dataclass(frozen=True)
class Generator:
    """One problem."""

    config: Any
    """The default."""
    write: Callable[..., CaseFacts]
    """config, case, seed, sample -> the files of a case."""
    inputs: Callable[[Any], dict[str, Any]]
    """What samples depend on besides the config."""
    card: Callable[[str], str]
    """The text of the card of a store, by its rows."""
    tools: tuple[str, ...] = ("simpleFoam",)


GENERATORS: dict[str, Generator] = {
    "openfoam-airfoil": Generator(
        AirfoilFlow(),
        airfoil_case.write_case,
        airfoil_case.inputs,
        partial(
            card_text,
            "openfoam-airfoil",
            patch=WALL,
            parameters={"speed": "m/s", "incidence": "deg"},
            area=airfoil_case.SPAN,
            length=1.0,
            centre=airfoil_case.CENTRE,
        ),
    ),
    "openfoam-body": Generator(
        BodyFlow(),
        body_case.write_case,
        body_case.inputs,
        partial(
            card_text,
            "openfoam-body",
            patch=BODY,
            parameters={"speed": "m/s", "incidence": "deg"},
            area=body_case.AREA,
            length=body_case.LENGTH,
            centre=(0.0, 0.0, 0.0),
        ),
        tools=("simpleFoam", "blockMesh", "snappyHexMesh"),
    ),
}
NAMES = tuple(GENERATORS)


@dataclass(frozen=True, kw_only=True)
class OpenFoamSource:
    """`samples` numbered cases of a problem."""

    problem: str
    config: Any
    samples: int
    seed: int
    cases: Cases
    card: Card
    generator: Mapping[str, Any] = field(default_factory=dict)
    """What the cases depend on, for the store's options."""

    @property
    def name(self) -> str:
        return self.problem

    @property
    def schema(self) -> Schema:
        return self.card.schema

    @property
    def options(self) -> Mapping[str, Any]:
        return {**self.card.to_json(), "generator": dict(self.generator)}

    @property
    def warnings(self) -> list[str]:
        """What a user should know of the solver, a sentence each."""
        return version_warning(self.cases.openfoam)

    def ids(self) -> Sequence[str]:
        return [f"{k:06d}" for k in range(self.samples)]

    def splits(self) -> None:
        return None

    def files(self, sample: str) -> Mapping[str, Path]:
        return {}

    def read(self, sample: str) -> Cloud:
        write = partial(_write, self.problem, self.config, self.seed)
        case = self.cases.solved(sample, self.config, write)
        facts = read_facts(case)
        paths = {name: case / _inside(pattern) for name, pattern in self.card.files.items()}
        return Cloud(self.schema, read_arrays(self.card, paths).arrays, _parameters(facts))


def openfoam_source(
    problem: str,
    *,
    samples: int,
    seed: int,
    cases: Path,
    settings: Mapping[str, Any] | None = None,
    openfoam: Path | None = None,
) -> OpenFoamSource:
    """The source of a problem, whose cases lie in a folder, which is made.

    ValueError, having written nothing, where a setting is wrong, OpenFOAM is not found, or the
    folder holds cases made with other settings.
    """
    check_choice("problem", problem, NAMES)
    check_whole("samples", samples, 1)
    generator = GENERATORS[problem]
    config = overlay(generator.config, settings or {})
    program = find_openfoam(openfoam, tools=generator.tools)
    described = {
        "problem": problem,
        "seed": seed,
        "openfoam": program.version,
        **{name: value for name, value in asdict(config).items() if name != "rows"},
        "files": generator.inputs(config),
    }
    folder = Cases(cases.absolute(), program)
    folder.prepare(described, {f"{rows}.yaml": generator.card(rows) for rows in ROWS})
    remove_unfinished(folder.folder)
    return OpenFoamSource(
        problem=problem,
        config=config,
        samples=samples,
        seed=seed,
        cases=folder,
        card=read_card(folder.folder / f"{config.rows}.yaml"),
        generator=described,
    )


def _write(problem: str, config: Any, seed: int, case: Path, sample: int) -> CaseFacts:
    return GENERATORS[problem].write(config, case, seed=seed, sample=sample)


def _inside(pattern: str) -> str:
    """The path inside a case of a pattern like "solved/{id}/body.stl"."""
    return pattern.partition("{id}")[2].strip("/")


def _parameters(facts: Mapping[str, Any]) -> dict[str, float]:
    """The features, and what the solver found."""
    solver = {
        "solver_cd": facts["coefficients"]["Cd"],
        "solver_cl": facts["coefficients"]["Cl"],
        "solver_cm": facts["coefficients"]["CmPitch"],
        "solver_iterations": float(facts["iterations"]),
        "y_plus_max": facts["y_plus"]["max"],
    }
    return {**facts["parameters"], **solver}
