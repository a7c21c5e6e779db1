"""Stokes flow past rigid bodies in a uniform stream U, by boundary elements.

On the wall, U = 1 / (8 pi mu) times the integral of G(x, y) f(y) dA(y) over all walls, G the
stokeslet I / r + r r^T / r^3. There are as many equations as panels and components: the mean of
both sides over each panel, with f constant on panels (Galerkin's method, `stokeslets.py`).

The f of this equation is the traction on the wall less that of the flow inside, which is at rest
under a constant pressure. So f is known but for a multiple of the normals on each body: one
solution is taken, and the pressure inside, evaluated at the body's centre, makes it the traction
for a pressure of zero far away. As the stress of viscosity has no normal part at a wall without
slip, the pressure there is -f . n, and the rest of f is the wall shear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.core.checks import check_shape
from slipstream.core.shapes import Float
from slipstream.physics.bodies import Body
from slipstream.physics.krylov import solve_gmres
from slipstream.physics.scenes import Walls
from slipstream.physics.stokeslets import stokeslet_flow, stokeslet_matrix
from slipstream.physics.surface import fitted_mesh
from slipstream.physics.triangles import TriangleMesh, join

TOLERANCE = 1e-12
"""Residual over the right side at which the iteration stops."""
MOST = 300
"""Products before elimination takes over. Seen: 66 to 91 for one body of 1280 to 3380 panels."""


@dataclass(frozen=True, eq=False)
class StokesFlow(Walls):
    """The solved flow past bodies, in float64."""

    freestream: Float[Tensor, " 3"]
    viscosity: float
    tractions: Float[Tensor, "F 3"]
    """Force per area of the fluid on each panel."""

    @property
    def forces(self) -> Float[Tensor, "B 3"]:
        """The force of the fluid on each body."""
        on_panels = self.tractions * self.mesh.areas[:, None]
        return on_panels.view(len(self.bodies), -1, 3).sum(1)


def solve_stokes(
    bodies: tuple[Body, ...],
    freestream: Tensor,
    *,
    frequency: int,
    viscosity: float = 1.0,
    device: str = "cpu",
) -> StokesFlow:
    """The flow past bodies with 20 frequency^2 panels each."""
    check_shape("freestream", freestream, "3", (3,))
    bodies = tuple(body.to(device) for body in bodies)
    mesh = join([fitted_mesh(body, frequency) for body in bodies])
    freestream = freestream.to(mesh.vertices)
    tractions = _solve(mesh, freestream, len(bodies)) * viscosity
    inside = torch.stack([body.centre for body in bodies])
    pressure = stokeslet_flow(mesh, -tractions, inside)[1]
    excess = pressure.repeat_interleave(len(mesh.faces) // len(bodies))[:, None]
    tractions = tractions - excess * mesh.normals
    return StokesFlow(bodies, frequency, mesh, freestream, viscosity, tractions)


def stokes_flow_at(flow: StokesFlow, points: Tensor) -> tuple[Tensor, Tensor]:
    """Velocity (P, 3) and pressure (P) at points outside the bodies."""
    velocity, pressure = stokeslet_flow(flow.mesh, -flow.tractions, points)
    return flow.freestream + velocity / flow.viscosity, pressure


def pressure_and_shear(tractions: Tensor, normals: Tensor) -> tuple[Tensor, Tensor]:
    """Pressure (P) and wall shear (P, 3) from tractions (P, 3) on walls with outward normals."""
    pressure = -(tractions * normals).sum(-1)
    return pressure, tractions + pressure[:, None] * normals


def _solve(mesh: TriangleMesh, freestream: Tensor, bodies: int) -> Float[Tensor, "F 3"]:
    """Tractions at unit viscosity, but for a multiple of the normals on each body."""
    matrix = stokeslet_matrix(mesh)
    # Each body's normals are pinned by adding v v^T with v its area vectors, at the scale of the
    # diagonal; the equations of symmetric positive matrices then converge quickly.
    scale = matrix.diagonal().mean()
    for part in torch.arange(len(mesh.faces), device=freestream.device).chunk(bodies):
        fluxes = torch.zeros_like(mesh.area_vectors)
        fluxes[part] = mesh.area_vectors[part] / mesh.area_vectors[part].norm()
        vector = fluxes.T.flatten()
        matrix.addr_(vector, vector, alpha=10 * float(scale))
    right = 8 * math.pi * (freestream[:, None] * mesh.areas).flatten()
    root = matrix.diagonal().rsqrt()
    matrix.mul_(root).mul_(root[:, None])
    solution = root * solve_gmres(matrix, root * right, tolerance=TOLERANCE, most=MOST)
    return solution.view(3, -1).T
