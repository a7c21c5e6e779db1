"""The point store: how samples get onto disk and are read again.

    source -> ingest -> STORE/manifest.json, STORE/samples/*.npy -> open_store -> Store

fields       named fields with units and groups, and the schema that orders them into columns;
             references: what targets are divided by, sample by sample
cloud        one sample in memory, or in blocks of rows where it is too large to hold
source       what a reader or a generator provides to be ingested
ingest       samples of a source into a store; unfinished, source_files: its state until done
manifest     what a store holds, as JSON; splits, statistics, differences: parts of it
point_store  a finished store, open for reading; permutation: the order of its rows; subset: fewer
             samples of it to train on
pairs        trajectories seen as pairs of states; pair_store: a store of them
checks       whether a store agrees with its manifest; manifest_checks: and that with itself
identity     hashes of data and splits
outliers     samples unlike the others; constant_targets: targets that nothing can be learned from;
             quantities: the fields as these two count them
"""

from slipstream.data.store.checks import check_store
from slipstream.data.store.cloud import Cloud, Parameters, RowBlocks, Rows, check_finite_rows
from slipstream.data.store.constant_targets import (
    constant_targets,
    is_constant,
    varying_groups,
)
from slipstream.data.store.fields import PARTS, Computed, Field, Schema
from slipstream.data.store.identity import data_hash, split_hash
from slipstream.data.store.ingest import IngestProgress, IngestSummary, ingest, merge
from slipstream.data.store.manifest import MANIFEST_NAME, YARDSTICKS_NAME, Manifest, read_manifest
from slipstream.data.store.manifest_checks import Defect
from slipstream.data.store.outliers import Outlier, find_outliers
from slipstream.data.store.pairs import LATER, LEAD_TIME, PAIRS_OPTION, Pairs
from slipstream.data.store.permutation import row_order
from slipstream.data.store.point_store import Store, open_store
from slipstream.data.store.references import Reference
from slipstream.data.store.source import Source, SourceWithin
from slipstream.data.store.splits import Splits, draw_splits
from slipstream.data.store.statistics import Statistics
from slipstream.data.store.subset import with_training_samples

__all__ = [
    "Cloud",
    "Computed",
    "Field",
    "Defect",
    "LATER",
    "LEAD_TIME",
    "MANIFEST_NAME",
    "Manifest",
    "PAIRS_OPTION",
    "PARTS",
    "Pairs",
    "Parameters",
    "IngestProgress",
    "IngestSummary",
    "Reference",
    "Outlier",
    "RowBlocks",
    "Rows",
    "Schema",
    "Source",
    "SourceWithin",
    "Splits",
    "Statistics",
    "Store",
    "YARDSTICKS_NAME",
    "check_finite_rows",
    "check_store",
    "constant_targets",
    "data_hash",
    "draw_splits",
    "find_outliers",
    "ingest",
    "is_constant",
    "merge",
    "open_store",
    "read_manifest",
    "row_order",
    "split_hash",
    "varying_groups",
    "with_training_samples",
]
