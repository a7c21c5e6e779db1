"""Finds products that may still read a buffer while the next points are copied into it.

Triton copies the points of later iterations into a ring of buffers while the present ones are being
multiplied, and on Hopper it lets a product run on when nothing needs it yet. The ring must then
have one more buffer than there are copies under way. Triton 3.6 and 3.7 forget that one where the
same block is also read into registers, and the next copy lands in what the product is reading:
results that differ from run to run by a little, seen on an H200 in `bf16v` with three stages.
This plays the loops of a kernel's TTGIR for some iterations, and names every such copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_DEFINED = r"^\s*(%\w+)(?::\d+)? = "
_VIEW = re.compile(_DEFINED + r"ttg\.memdesc_\w+ (%\w+)")
_RING = re.compile(_DEFINED + r"ttg\.local_alloc .*-> !ttg\.memdesc<(\d+)x")
_COPY = re.compile(r"ttg\.async_copy_global_to_local %\w+, (%\w+)")
_PRODUCT = re.compile(_DEFINED + r"ttng\.warp_group_dot (%\w+), (%\w+), .*isAsync = true")
_WAIT = re.compile(r"ttng\.warp_group_dot_wait .*pendings = (\d+)")


@dataclass
class _Ring:
    """Buffers that the blocks of one load go round in."""

    size: int
    ahead: int = 0
    """Copies before the loop: those for later iterations that are under way."""


@dataclass
class _Kernel:
    rings: dict[str, _Ring] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    """The ring that a view is of."""

    def learn(self, line: str) -> None:
        if ring := _RING.match(line):
            self.rings[ring[1]] = _Ring(int(ring[2]))
            self.roots[ring[1]] = ring[1]
        elif (view := _VIEW.match(line)) and view[2] in self.roots:
            self.roots[view[1]] = self.roots[view[2]]


def races(ttgir: str) -> list[str]:
    """The buffers that are written while they may be read; none where all is well."""
    kernel, found, loop, depth = _Kernel(), [], list[str](), 0
    for line in ttgir.splitlines():
        kernel.learn(line)
        if depth == 0 and "scf.for" not in line:
            if copy := _COPY.search(line):
                name = kernel.roots.get(copy[1])
                if name is not None:
                    kernel.rings[name].ahead += 1
            continue
        depth += line.count("{") - line.count("}")
        loop.append(line)
        if depth == 0:
            found += _play(loop, kernel)
            loop = []
    return found


def _play(loop: list[str], kernel: _Kernel) -> list[str]:
    """Go through a loop's body again and again, with the products that nobody has waited for."""
    under_way: list[tuple[str, set[tuple[str, int]]]] = []
    found: dict[str, None] = {}
    for iteration in range(3 * max((ring.size for ring in kernel.rings.values()), default=1)):
        for line in loop:
            if product := _PRODUCT.match(line):
                names = [kernel.roots.get(name) for name in product.groups()[1:]]
                read = {(n, iteration % kernel.rings[n].size) for n in names if n}
                under_way.append((product[1], read))
            elif wait := _WAIT.search(line):
                under_way = under_way[len(under_way) - int(wait[1]) :] if int(wait[1]) else []
            elif copy := _COPY.search(line):
                name = kernel.roots.get(copy[1])
                if name is None:
                    continue
                ring = kernel.rings[name]
                written = (name, (iteration + ring.ahead) % ring.size)
                for by, read in under_way:
                    if written in read:
                        found[f"{name} is written while {by} reads it"] = None
    return list(found)
