"""The numbers of the paper's tables of errors, as they are printed.

A cell of Table 1 is mean and standard deviation of three seeds for `baseline` and
`no-token-attention`, and one seed for the others. The per-variable tables have one seed everywhere.
"""

from __future__ import annotations

VARIANTS = (
    "baseline", "no-token-attention", "mlp-only", "untied", "frozen-slice", "slice-once",
)  # fmt: skip
SEEDS = 3

TABLE_1 = {
    "Taylor-Green": ("0.0756 .0001", "0.0745 .0001", "0.0786", "0.0755", "0.0777", "0.188"),
    "SHIFT-Wing surface": ("0.0580 .0005", "0.0579 .0005", "0.139", "0.0576", "0.0577", "0.155"),
    "SHIFT-Wing volume": ("0.127 .0007", "0.127 .0008", "0.408", "0.128", "0.135", "0.793"),
    "DrivAerNet++ surface": ("0.193 .005", "0.188 .002", "0.294", "0.190", "0.192", "0.435"),
    "DrivAerNet++ volume": ("0.163 .0003", "0.159 .001", "0.315", "0.162", "0.162", "0.386"),
    "SHIFT-SUV surface": ("0.157 .0007", "0.157 .00003", "0.252", "0.156", "0.159", "0.449"),
    "SHIFT-SUV volume": ("0.0601 .0006", "0.0624 .0009", "0.197", "0.0577", "0.0683", "0.408"),
    "DrivAerML surface": ("0.089 .001", "0.096 .000", "0.501", "0.086", "0.104", "0.579"),
    "DrivAerML volume": ("0.110 .005", "0.112 .004", "0.497", "0.108", "0.123", "0.745"),
}
"""Best validation error, relative L1 on normalised outputs."""

PRESSURE_L1 = {
    "DrivAerNet++ surface": ((0.1017, 0.1830), (0.1922, 0.2759)),
    "DrivAerNet++ volume": ((0.1064, 0.2188), (0.1010, 0.1639)),
    "DrivAerML surface": ((0.0387, 0.2622), (0.1128, 0.5645)),
    "DrivAerML volume": ((0.0517, 0.2885), (0.1112, 0.4470)),
    "SHIFT-Wing surface": ((0.00102, 0.0107), (0.0586, 0.0870)),
    "SHIFT-Wing volume": ((0.00225, 0.0333), (0.1735, 0.2843)),
    "SHIFT-SUV surface": ((0.0271, 0.1131), (0.2607, 0.3296)),
    "SHIFT-SUV volume": ((0.0298, 0.1330), (0.0582, 0.1537)),
}
"""Test errors, relative L1 in physical units: of pressure and of velocity or wall shear, each of
`baseline` and of `mlp-only`."""

PRESSURE_L2 = {
    "DrivAerNet++ surface": ((0.1509, 0.2510), (0.2265, 0.3098)),
    "DrivAerNet++ volume": ((0.1621, 0.3087), (0.1337, 0.2088)),
    "DrivAerML surface": ((0.0614, 0.4053), (0.1204, 0.6067)),
    "DrivAerML volume": ((0.0729, 0.4265), (0.1195, 0.4749)),
    "SHIFT-Wing surface": ((0.00356, 0.0288), (0.0793, 0.1202)),
    "SHIFT-Wing volume": ((0.0101, 0.0782), (0.2041, 0.3239)),
    "SHIFT-SUV surface": ((0.0444, 0.1859), (0.2933, 0.3649)),
    "SHIFT-SUV volume": ((0.0537, 0.2181), (0.0729, 0.2049)),
}
"""The same, relative L2."""


def cell(dataset: str, variant: str) -> tuple[str, str]:
    """Mean and standard deviation of a cell of Table 1, as printed; "" for a single seed."""
    mean, _, std = TABLE_1[dataset][VARIANTS.index(variant)].partition(" ")
    return mean, std
