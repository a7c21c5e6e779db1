"""Steady turbulent flows by OpenFOAM, a program that is found or not, never a dependency.

    source = openfoam_source("openfoam-airfoil", samples=8, seed=0, cases=Path("cases"))
    ingest(source, Path("stores/foil"))

airfoils       NACA's airfoils as curves; airfoil_files: those of a user's coordinates
c_grid         a structured grid round an airfoil; poly_mesh: OpenFOAM's mesh of it
airfoil_case   which airfoils, incidences and speeds there may be, and the case of one
body_case      bodies in three dimensions; body_mesh: a mesh around one by snappyHexMesh
solver_setup   the dictionaries of a case; foam_text: OpenFOAM's text files; surface_files: STL
program        where OpenFOAM is, and running its tools
convergence    whether a run has converged
cases          a folder of solved cases; card_text: the cards by which they are read
source         the cases as a source for a point store
"""

from slipstream.physics.openfoam.airfoil_case import AirfoilFlow
from slipstream.physics.openfoam.body_case import BodyFlow
from slipstream.physics.openfoam.program import find_openfoam
from slipstream.physics.openfoam.source import NAMES, OpenFoamSource, openfoam_source

__all__ = ["NAMES", "AirfoilFlow", "BodyFlow", "OpenFoamSource", "find_openfoam", "openfoam_source"]
