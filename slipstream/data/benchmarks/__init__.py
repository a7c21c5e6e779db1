"""The nine published benchmarks: their files on disk as sources of samples.

catalogue       fields, units, options, splits and expected statistics of all nine, as data
raw             common to the readers: designs on disk, splits
flow            surfaces and volumes of flows; row_blocks: rows assembled a block at a time
drivaerml, drivaernet, shift, taylor_green    one layout each
"""

from slipstream.data.benchmarks.catalogue import BENCHMARKS, benchmark_source, manifest_warnings
from slipstream.data.benchmarks.raw import RawSource

__all__ = ["BENCHMARKS", "RawSource", "benchmark_source", "manifest_warnings"]
