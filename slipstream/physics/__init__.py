"""Built-in data with solutions that are exact, or checked against exact ones; and real flows.

builtin         the problems by name, as sources for a point store
poisson         Gaussian charges in free space, in closed form
potential_flow  flow past random smooth bodies (bodies, surface) by source panels (panels, krylov)
ellipsoid       the exact flow past an ellipsoid, which checks the panels
taylor_green    decaying vortices, by a spectral solver
openfoam        turbulent flows round airfoils and bodies, solved by OpenFOAM where it is installed
triangles       triangle meshes, solid angles and exact distances
"""
