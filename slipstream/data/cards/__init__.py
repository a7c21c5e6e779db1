"""Stores from any meshes: a card says which files make up a sample and what their arrays mean.

    card.yaml -> read_card -> Card -> MeshSource -> ingest
    folder -> look_at -> FolderLook -> draft_card -> card.yaml

card, types      the card, read and checked
reference        values of a card that forces are made coefficients with
patterns         where the files of a sample are; parameters: numbers of a sample, from tables
tables           CSV and text with parameters; inputs: whether a parameter is an input of the flow
rows, source     from the files of a sample to its rows; a card as a source of samples
original         from the rows of a stored sample back to the mesh they were read from
folder_look      what a folder holds (layout, file_look, parameter_look, shape)
draft            what a first card should say (roles); draft_text: that card as text
"""

from slipstream.data.cards.card import read_card
from slipstream.data.cards.draft_text import draft_card
from slipstream.data.cards.file_look import ArrayLook, FileLook, look_at_file
from slipstream.data.cards.folder_look import FolderLook, look_at
from slipstream.data.cards.original import OriginalMesh, has_card, original_mesh
from slipstream.data.cards.parameter_look import ParameterColumn, ParameterLook
from slipstream.data.cards.parameters import parameter_numbers, read_parameter_rows
from slipstream.data.cards.roles import (
    Numbers,
    is_openfoam,
    role_of,
    split_unit,
    vectors_of_scalars,
)
from slipstream.data.cards.roles import guess as guess_role
from slipstream.data.cards.rows import read_arrays
from slipstream.data.cards.shape import Shape
from slipstream.data.cards.source import MeshSource, normals_warning
from slipstream.data.cards.tables import read_table
from slipstream.data.cards.types import ArrayValue, Card, ComputedValue

__all__ = [
    "ArrayLook",
    "ArrayValue",
    "Card",
    "ComputedValue",
    "ParameterColumn",
    "FileLook",
    "FolderLook",
    "MeshSource",
    "Numbers",
    "OriginalMesh",
    "ParameterLook",
    "Shape",
    "draft_card",
    "guess_role",
    "has_card",
    "is_openfoam",
    "look_at",
    "look_at_file",
    "normals_warning",
    "original_mesh",
    "parameter_numbers",
    "read_arrays",
    "read_card",
    "read_parameter_rows",
    "read_table",
    "role_of",
    "split_unit",
    "vectors_of_scalars",
]
