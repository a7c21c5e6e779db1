"""Built-in data with solutions that are exact, or checked against exact ones; and real flows.

builtin         the problems by name, as sources for a point store
poisson         Gaussian charges in free space, in closed form
scenes          random smooth bodies (bodies, surface) in a stream, and points around them
potential_flow  flow without friction past them, by source panels (panels, krylov)
ellipsoid       the exact flow past an ellipsoid, which checks the panels
stokes_flow     slow flow past them, by boundary elements (stokes_solver, stokeslets)
stokes_meshes   the bodies as meshes with pressure and wall shear on them
stokes_exact    the exact slow flow past an ellipsoid, which checks the elements
taylor_green    decaying vortices, by a spectral solver
openfoam        turbulent flows round airfoils and bodies, solved by OpenFOAM where it is installed
triangles       triangle meshes, solid angles and exact distances
"""
