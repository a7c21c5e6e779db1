"""The point store: how samples get onto disk and are read again.

    source -> ingest -> STORE/manifest.json, STORE/samples/*.npy -> open_store -> Store

fields       named fields with units and groups, and the schema that orders them into columns;
             references: what targets are divided by, sample by sample
cloud        one sample in memory, or in blocks of rows where it is too large to hold
source       what a reader or a generator provides to be ingested
ingest       samples of a source into a store; unfinished, source_files: its state until done
manifest     what a store holds, as JSON; splits, statistics, differences: parts of it
point_store  a finished store, open for reading; permutation: the order of its rows
pairs        trajectories seen as pairs of states; pair_store: a store of them
checks       whether a store agrees with its manifest; identity: hashes of data and splits
pool         a task over many items, by processes or threads
"""

from slipstream.data.store.checks import Defect, check_store
from slipstream.data.store.cloud import Cloud, Parameters, RowBlocks, Rows, check_finite_rows
from slipstream.data.store.fields import PARTS, Computed, Field, Schema
from slipstream.data.store.identity import data_hash, split_hash
from slipstream.data.store.ingest import IngestProgress, IngestSummary, ingest, merge
from slipstream.data.store.manifest import MANIFEST_NAME, Manifest, read_manifest
from slipstream.data.store.pairs import PAIRS_OPTION, Pairs
from slipstream.data.store.permutation import row_order
from slipstream.data.store.point_store import Store, open_store
from slipstream.data.store.references import Reference
from slipstream.data.store.source import Source
from slipstream.data.store.splits import Splits, draw_splits
from slipstream.data.store.statistics import Statistics

__all__ = [
    "Cloud",
    "Computed",
    "Field",
    "Defect",
    "MANIFEST_NAME",
    "Manifest",
    "PAIRS_OPTION",
    "PARTS",
    "Pairs",
    "Parameters",
    "IngestProgress",
    "IngestSummary",
    "Reference",
    "RowBlocks",
    "Rows",
    "Schema",
    "Source",
    "Splits",
    "Statistics",
    "Store",
    "check_finite_rows",
    "check_store",
    "data_hash",
    "draw_splits",
    "ingest",
    "merge",
    "open_store",
    "read_manifest",
    "row_order",
    "split_hash",
]
