"""`slipstream model`: what a trained model is, takes and gives. Bad input raises ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import Json, Plugins, load_plugins
from slipstream.cli.terminal import say
from slipstream.data.store import open_store
from slipstream.runs.make_recipe import add_recipe
from slipstream.runs.model_file import load_model, model_path
from slipstream.runs.model_page import model_facts, model_page


def model(
    path: Annotated[
        Path, typer.Argument(metavar="RUN_OR_FILE", help="Folder of a run, or a model file.")
    ],
    store: Annotated[
        Path | None,
        typer.Option(
            help="The store that the model was trained on: a model file of an older version gets"
            " from it what it lacks."
        ),
    ] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Say what a model is, which inputs it takes and how they are made, and what it gives.

    Units, ranges of the training, spacing of its points, and what is not known. With --store, a
    model file of an older version is completed; its weights stay as they are.

    Example: slipstream model runs/own
    """
    load_plugins(plugin)
    file = model_path(path)
    trained = load_model(file)
    added = False
    if store is not None and trained.recipe is None:
        add_recipe(file, open_store(store))
        trained, added = load_model(file), True
    if as_json:
        print(json.dumps({"path": str(file), "recipe_added": added, **model_facts(trained)}))
        return
    say(*model_page(trained).split("\n"))
    if store is not None:
        say()
        say(
            f"{file}: what it lacked was added from {store}."
            if added
            else f"{file} lacks nothing that a store could add: it was left as it is."
        )
