"""Will it fit, and how long is a step: predictions before anything is launched.

workload  what a step computes, from a config
kept      bytes of a point that the layers keep, counted
counts    operations and bytes moved, counted
devices   what is known of a device: tables fitted to the records, and peak numbers of others
predict   memory by part and seconds of a step
advice    which field to change, and the most points that fit
"""

from slipstream.planning.advice import Option, largest_options, largest_points, options
from slipstream.planning.devices import Device, device_named, known_devices
from slipstream.planning.predict import Prediction, loader_bytes, predict, streamed_bytes
from slipstream.planning.workload import MEMORY, Spread, Workload, workload_of

__all__ = [
    "MEMORY",
    "Device",
    "Option",
    "Prediction",
    "Spread",
    "Workload",
    "device_named",
    "known_devices",
    "largest_options",
    "largest_points",
    "loader_bytes",
    "options",
    "predict",
    "streamed_bytes",
    "workload_of",
]
