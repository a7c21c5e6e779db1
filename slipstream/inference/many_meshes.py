"""Many meshes, here or on an engine: there each is a task of a worker, which writes its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from slipstream.core.engine import Engine, Where, as_engine
from slipstream.core.pool import run_on
from slipstream.data.meshes import MeshInput, ReadLimits, read_within
from slipstream.inference.likeness import Judge
from slipstream.inference.many import Job, MeshResult, Outputs, failure, predict_many
from slipstream.inference.predict import Choices, unwatched
from slipstream.inference.wishes import Wishes
from slipstream.runs.ensemble import Ensemble
from slipstream.runs.model_file import model_path
from slipstream.runs.worker_models import WorkerModels


@dataclass(frozen=True, kw_only=True)
class ManyMeshes:
    """How meshes are predicted, by absolute paths."""

    outputs: Outputs
    wishes: Wishes = Wishes()
    strict: bool = False
    """Whether meshes must be like the training."""
    limits: ReadLimits = ReadLimits()

    def absolute(self) -> ManyMeshes:
        """For workers, which have other working folders."""
        single = self.outputs.single
        outputs = replace(
            self.outputs,
            folder=self.outputs.folder.absolute(),
            single=None if single is None else single.absolute(),
        )
        points = tuple(path.absolute() for path in self.wishes.points)
        return replace(self, outputs=outputs, wishes=replace(self.wishes, points=points))


@dataclass(frozen=True)
class _Task:
    places: WorkerModels
    many: ManyMeshes

    @cached_property
    def _job(self) -> Job:
        return _job(self.places.models, self.places.runs, self.many)

    def __call__(self, item: tuple[MeshInput, Choices]) -> MeshResult:
        mesh, choices = item
        try:
            if self._job.begun(mesh, choices):  # by a worker that died
                self._job.read_records()
            with read_within(self.many.limits):
                return self._job.run(mesh, choices)
        except (ValueError, OSError) as error:
            return failure(mesh, error)


def predict_meshes(
    models: Ensemble,
    runs: Sequence[Path],
    meshes: Sequence[MeshInput],
    many: ManyMeshes,
    choices: Callable[[MeshInput], Choices],
    *,
    engine: Where = None,
    device: str = "auto",
) -> Iterator[MeshResult]:
    """Predict meshes into a folder, a result each; an error of one does not stop the others.

    `models` are loaded here, of the folders or files `runs`. An `engine` has a task for each mesh,
    and its workers load the models again, on `device`; results then come in any order, first those
    of meshes that are there already.
    """
    with as_engine(engine) as on:
        if on is not None:
            yield from _on_engine(on, models, runs, meshes, many, choices, device)
            return
        judge = Judge(runs, models, strict=many.strict)
        folders = [model_path(run).parent for run in runs]
        yield from predict_many(
            models, meshes, many.outputs, choices, many.wishes, judge=judge, runs=folders
        )


def _on_engine(
    engine: Engine,
    models: Ensemble,
    runs: Sequence[Path],
    meshes: Sequence[MeshInput],
    many: ManyMeshes,
    choices: Callable[[MeshInput], Choices],
    device: str,
) -> Iterator[MeshResult]:
    there, places = many.absolute(), WorkerModels.of(models, runs, device)
    job, todo = _job(models, runs, many), list[tuple[MeshInput, Choices]]()
    for mesh in meshes:
        try:
            chosen = choices(mesh)
            kept = job.kept(mesh, chosen)
        except (ValueError, OSError) as error:
            yield failure(mesh, error)
            continue
        if kept is not None:
            yield kept
        else:
            todo.append((replace(mesh, path=mesh.path.absolute()), _absolute(chosen)))
    if not todo:
        return
    there.outputs.folder.mkdir(parents=True, exist_ok=True)
    results = run_on(
        engine,
        _Task(places, there),
        todo,
        there.outputs.folder,
        files=[*places.files, *there.wishes.points],
        gpus=places.gpus,
        locks=True,
    )
    try:
        with closing(results):
            for _, result in results:
                yield _as_named(result, many.outputs.folder)
    finally:
        with suppress(OSError):  # it holds something
            there.outputs.folder.rmdir()


def _job(models: Ensemble, runs: Sequence[Path], many: ManyMeshes) -> Job:
    judge = Judge(runs, models, strict=many.strict)
    folders = [model_path(run).parent for run in runs]
    return Job(models, many.outputs, many.wishes, judge, folders)


def _absolute(choices: Choices) -> Choices:
    surface = choices.inputs.surface
    inputs = replace(choices.inputs, surface=None if surface is None else surface.absolute())
    return replace(choices, inputs=inputs, watch=unwatched)


def _as_named(result: MeshResult, folder: Path) -> MeshResult:
    """With the names of files as they would be from this working folder."""
    if folder.is_absolute():
        return result
    here, start = str(folder), f"{folder.absolute()}{os.sep}"

    def named(file: str) -> str:
        return str(Path(here, file.removeprefix(start))) if file.startswith(start) else file

    file = None if result.file is None else named(result.file)
    return replace(result, file=file, files=[named(one) for one in result.files])
