"""Built-in data with exact solutions, or solutions that are checked against exact ones.

builtin         the problems by name, as sources for a point store
poisson         Gaussian charges in free space, in closed form
potential_flow  flow past random smooth bodies (bodies, surface) by source panels (panels, krylov)
ellipsoid       the exact flow past an ellipsoid, which checks the panels
taylor_green    decaying vortices, by a spectral solver
triangles       triangle meshes, solid angles and exact distances
"""
