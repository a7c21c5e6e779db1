"""From a source of samples to a point store: resumable, parallel, in shards, with quarantine.

Every sample is written completely or not at all, followed by a record in STORE/ingest that it is
done; the manifest is written last, in one step. So an ingest that is interrupted at any moment
continues where it stopped when the same call is made again, and ends in the same bytes.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstream.core.checks import check_whole
from slipstream.core.engine import Engine, Where, as_engine
from slipstream.core.files import remove_partials, sync_folder
from slipstream.core.memory import array_bytes, machine_memory
from slipstream.core.pool import Results, run_on, run_tasks
from slipstream.data.store.cloud import RowBlocks
from slipstream.data.store.manifest import (
    MANIFEST_NAME,
    Manifest,
    Origin,
    SampleEntry,
    build_manifest,
    check_sample_id,
    read_manifest,
    write_manifest,
)
from slipstream.data.store.point_store import sample_file, write_sample
from slipstream.data.store.source import Source
from slipstream.data.store.source_files import check_agreement, describe_files, have_changed
from slipstream.data.store.splits import FRACTIONS, resolve_splits
from slipstream.data.store.unfinished import Part, Unfinished

# Errors of the machine, not of the sample: they stop the ingest, and no sample is quarantined.
_FATAL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE}
_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""Words in the RuntimeErrors by which torch reports a lack of memory, on the GPU and the CPU."""


@dataclass(frozen=True)
class IngestProgress:
    """One sample is done: `rows` were written (0 if it was there already), or it is bad."""

    done: int
    total: int
    sample: str
    rows: int
    reason: str | None = None
    """Why the sample is bad."""


@dataclass(frozen=True)
class IngestSummary:
    """What an ingest did, by sample id."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    """Already there from an earlier run."""
    quarantined: Mapping[str, str]
    """Not in the store, and why. The same call tries them again."""


def ingest(
    source: Source,
    store: Path,
    *,
    seed: int = 0,
    workers: int = 1,
    threads: int = 1,
    shard: tuple[int, int] = (0, 1),
    fractions: Mapping[str, float] = FRACTIONS,
    hash_files: bool = True,
    progress: Callable[[IngestProgress], None] | None = None,
    engine: Where = None,
) -> IngestSummary:
    """Write every sample of the source into a store, or every n-th from i for `shard` = (i, n).

    `workers` processes hold one sample each; with 1 this process does the work, in `threads`
    threads, for sources that wait for a GPU. An `engine` takes the samples in place of both, to
    workers that must see the folders of store and source by the same absolute paths. Splits are the
    source's, or drawn by `fractions`: a sample that the store has already stays in its split. Bad
    samples are left out, with the reason in the manifest. Shards may run anywhere, at any time,
    into one shared folder (or into folders that are copied together afterwards); `merge` then makes
    the manifest. Samples already in the store are kept, so the same call again finishes an
    interrupted ingest, adds new samples of the source, tries bad samples again and rewrites those
    whose files have changed (source_files.py says how changes are noticed).

    Raises ValueError, having written nothing, when the store was made with other fields, options or
    seed, when ids and splits do not fit, when another process works on the same shard, or when no
    sample is good; OSError when the disk is full, memory is short or a worker died: the manifest is
    then unchanged, and the same call continues.
    """
    check_whole("workers", workers, 1)
    check_whole("threads", threads, 1)
    _check_shard(shard)
    store = store if engine is None else store.absolute()
    ids = _checked_ids(source.ids())
    unfinished = Unfinished(store)
    before = unfinished.manifest()
    splits = resolve_splits(source.splits(), ids, fractions, seed, before.splits if before else {})
    origin = Origin(source.schema, source.name, _checked_options(source.options), seed)
    unfinished.begin(origin, ids, before)
    with unfinished.locked(shard):
        mine = ids[shard[0] :: shard[1]]
        done = unfinished.finished(mine, before)
        changed = {i for i in done if _has_changed(source, store, i, done[i], hash_files)}
        kept = {sample: entry for sample, entry in done.items() if sample not in changed}
        work = unfinished.work_folder(shard)
        try:
            task = _Task(source, store, origin, work, hash_files, frozenset(changed))
            todo = [sample for sample in mine if sample not in kept]
            with ExitStack() as stack:
                on = stack.enter_context(as_engine(engine))
                results = _results(on, task, todo, workers, threads)
                stack.enter_context(closing(results))
                entries, bad = _collect(results, len(mine), kept, progress or (lambda event: None))
            unfinished.drop(work)
            _finish(unfinished, shard, Part(origin, splits, entries, bad))
        except BaseException:
            unfinished.give_up(work)
            raise
    written = tuple(sample for sample in mine if sample in entries and sample not in kept)
    return IngestSummary(written, tuple(kept), dict(sorted(bad.items())))


def _results(
    engine: Engine | None, task: _Task, samples: Sequence[str], workers: int, threads: int
) -> Results[str, SampleEntry | str]:
    """On an engine, the work folder is new, so a worker that sees it sees the store; so with the
    source, where it sees the files of a sample."""
    if engine is None or engine.processes is not None:
        own = None if engine is None else engine.processes
        return run_tasks(task, samples, own or workers, threads=threads)
    files: Sequence[Path] = ()
    for sample in samples[:1]:
        with suppress(Exception):  # of the source's own code, as when a file is gone
            files = list(task.source.files(sample).values())
    return run_on(engine, task, samples, task.work, files=files, named=task.store)


def _finish(unfinished: Unfinished, shard: tuple[int, int], part: Part) -> None:
    """All samples are written: publish the store, or note that the shard is done."""
    if part.samples:
        sync_folder(sample_file(unfinished.store, next(iter(part.samples))).parent)
    if shard[1] == 1:
        _publish(unfinished, [part])
    else:
        unfinished.write_part(shard, part)


def merge(store: Path) -> Manifest:
    """Make the manifest of a store whose shards are all done; a second call changes nothing.

    Raises ValueError naming the shards that are missing, or that were made differently, a source
    file that changed between two of them, or the first sample whose file is missing or cut short.
    """
    unfinished = Unfinished(store)
    if (store / MANIFEST_NAME).is_file() and not unfinished.path.is_dir():
        remove_partials(store, MANIFEST_NAME)
        unfinished.remove()
        return read_manifest(store / MANIFEST_NAME)
    parts = unfinished.read_parts()
    first = next(iter(parts.values()))
    for path, part in parts.items():
        if (part.origin, part.splits) != (first.origin, first.splits):
            raise ValueError(
                f"{path} must have the fields, options, seed and splits of the first shard, got"
                " others"
            )
        unfinished.check_files(path, part.samples)
    check_agreement((path.stem, part.samples) for path, part in parts.items())
    return _publish(unfinished, list(parts.values()))


def _publish(unfinished: Unfinished, parts: Sequence[Part]) -> Manifest:
    """The last step: write the manifest, and remove everything but it and the samples.

    A sample that is bad now may have been good before: its old file is removed.
    """
    samples = {name: entry for part in parts for name, entry in part.samples.items()}
    bad = {name: reason for part in parts for name, reason in part.quarantined.items()}
    manifest = build_manifest(parts[0].origin, parts[0].splits, samples, bad)
    store = unfinished.store
    remove_partials(store, MANIFEST_NAME)
    write_manifest(store / MANIFEST_NAME, manifest)
    for sample in bad.keys() - samples.keys():
        sample_file(store, sample).unlink(missing_ok=True)
    unfinished.remove()
    return manifest


def _has_changed(
    source: Source, store: Path, sample: str, entry: SampleEntry, hashed: bool
) -> bool:
    """Whether a finished sample was made from other files than are there now."""
    try:
        files = source.files(sample)
    except Exception:  # of the source's own code, as when a file is gone: the sample is kept
        return False
    return have_changed(entry.files, files, sample_file(store, sample), hashed=hashed)


def _collect(
    results: Iterable[tuple[str, SampleEntry | str]],
    total: int,
    kept: Mapping[str, SampleEntry],
    progress: Callable[[IngestProgress], None],
) -> tuple[dict[str, SampleEntry], dict[str, str]]:
    """The entries of all good samples, and the reasons why the others are bad."""
    entries, bad = dict(kept), dict[str, str]()
    for done, sample in enumerate(kept, start=1):
        progress(IngestProgress(done, total, sample, 0))
    for sample, result in results:
        if isinstance(result, str):
            bad[sample] = result
        else:
            entries[sample] = result
        rows = 0 if isinstance(result, str) else result.rows
        done = len(entries) + len(bad)
        progress(IngestProgress(done, total, sample, rows, bad.get(sample)))
    return entries, bad


@dataclass(frozen=True)
class _Task:
    """Reads and writes one sample. It is pickled and sent to the workers."""

    source: Source
    store: Path
    origin: Origin
    work: Path
    hash_files: bool
    changed: frozenset[str]
    """Samples that the store has, made from files that have changed since."""

    def __call__(self, sample: str) -> SampleEntry | str:
        """The entry of a sample that is now written and recorded, or the reason why it is bad."""
        try:
            files = describe_files(self.source.files(sample), self.hash_files)
            cloud = self.source.read(sample)
            if isinstance(cloud, RowBlocks):
                cloud = replace(cloud, stream=_marked(cloud.blocks()))
            elif cloud.schema != self.origin.schema:
                raise ValueError("a sample must have the schema of its source, got another")
        except Exception as error:
            return _reason(sample, error)
        if sample in self.changed:
            Unfinished(self.store).forget(sample)
        try:
            entry = write_sample(
                self.store, sample, cloud, self.origin.schema, seed=self.origin.seed, work=self.work
            )
        except _ReadError as error:
            return _reason(sample, error.cause)
        except ValueError as error:
            return _reason(sample, error)
        entry = replace(entry, files=files)
        try:
            Unfinished(self.store).record(sample, entry)
        except OSError:
            sample_file(self.store, sample).unlink()
            raise
        return entry


class _ReadError(Exception):
    """Carries an error of the source through the writer, whose own errors stop the ingest."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _marked(blocks: Iterable[Any]) -> Iterator[Any]:
    try:
        yield from blocks
    except Exception as error:
        raise _ReadError(error) from error


def _reason(sample: str, error: Exception) -> str:
    """Why a sample is bad; an error of the machine, not of the sample, is raised again."""
    text = " ".join(str(error).split())
    if _lacks_memory(error):
        got = f"{type(error).__name__} {text}".strip()
        raise OSError(
            errno.ENOMEM,
            f"sample {sample} must fit into memory, got {got}: the same call with fewer workers"
            " continues where this one stopped",
        ) from error
    if getattr(error, "errno", None) in _FATAL:
        raise error
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def _lacks_memory(error: Exception) -> bool:
    if isinstance(error, RuntimeError):
        return any(part in str(error).lower() for part in _NO_MEMORY)
    if (array_bytes(error) or 0) > machine_memory():
        return False  # the sample is wrong, as a header that declares 12 TB
    return isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM


def _checked_ids(ids: Sequence[str]) -> list[str]:
    if not ids:
        raise ValueError("a source must have at least one sample, got none")
    seen: set[str] = set()
    for sample in ids:
        check_sample_id(sample)
        if sample.lower() in seen:
            raise ValueError(
                f"sample ids must be unique, capitals aside, got {sample!r} more than once"
            )
        seen.add(sample.lower())
    return list(ids)


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as they are read back from JSON, with lists for tuples."""
    try:
        return dict(json.loads(json.dumps(dict(options), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"options must be JSON, got {error}") from None


def _check_shard(shard: tuple[int, int]) -> None:
    index, count = shard
    check_whole("shard count", count, 1)
    check_whole("shard index", index, 0)
    if index >= count:
        raise ValueError(f"shard index must be below {count}, got {index}")
