"""What is computed from a mesh: normals, orientation, distances, averages, orders of rows.

outward      normals that point out of the body, and how sure that is
normals      normals of points and cells, and which points are in a box
orientation  which faces must be turned for a surface to face outward, and where that is not known
             edges, pieces: how its faces hang together; nesting, tunnels: bodies in one another
             views, raster, cuts: what is seen from outside; votes: what that decides
outward      normals that point out of the body
distance     exact distance to the nearest of many triangles; boxes: the tree that it searches
averages     values averaged from the points of a mesh to its cells, and back
matching     which row of one file belongs to each row of another
spacing      how far apart points are
z_order      an order of points in which neighbours are close
"""

from slipstream.data.geometry.averages import array_at, cells_to_points, points_to_cells
from slipstream.data.geometry.edges import open_edges, places, triangles_at_open_edges
from slipstream.data.geometry.matching import Matched, check_order, match_exactly, match_nearly
from slipstream.data.geometry.normals import (
    NearestTriangle,
    NoNormalError,
    cell_normals,
    distance_to_triangles,
    in_box,
    point_normals,
)
from slipstream.data.geometry.orientation import Winding, find_winding
from slipstream.data.geometry.outward import (
    OutwardNormals,
    area_share,
    outward_normals,
    winding_of,
)
from slipstream.data.geometry.spacing import filled_dimension, median_spacing, scaled_spacing
from slipstream.data.geometry.z_order import z_order_codes

__all__ = [
    "Matched",
    "NearestTriangle",
    "NoNormalError",
    "Winding",
    "OutwardNormals",
    "area_share",
    "array_at",
    "cell_normals",
    "cells_to_points",
    "check_order",
    "distance_to_triangles",
    "filled_dimension",
    "find_winding",
    "in_box",
    "match_exactly",
    "match_nearly",
    "median_spacing",
    "open_edges",
    "outward_normals",
    "places",
    "point_normals",
    "points_to_cells",
    "scaled_spacing",
    "triangles_at_open_edges",
    "winding_of",
    "z_order_codes",
]
