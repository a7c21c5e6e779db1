"""A cloud taken in chunks gives the result of one pass, whatever the size of a chunk.

    python examples/stream_many_points.py         # ten seconds

What the points of a layer give to its slots are sums. Sums of chunks add up, so a cloud that is
read some points at a time, from a file for instance, has the tokens that it has as a whole.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream import Membership, Size, TokenSums, Transolver, slice_points
from slipstream.models.sweeps import Points, Sweeping, stream_through


def one_layer(cloud: Tensor, chunk: int) -> float:
    """The tokens of one slice, at once and by chunks: the largest difference."""
    to_query, slots = torch.randn(3, 32), torch.randn(16, 8)

    def sums(points: Tensor) -> TokenSums:
        query = (points @ to_query).unflatten(-1, (4, 8))  # (B, N, H, D)
        return slice_points(Membership(query, slots, None, torch.full((4,), 0.5)), query)

    parts = [sums(points) for points in cloud.split(chunk, dim=1)]
    added = sum(parts[1:], start=parts[0])
    return float((added.tokens(1e-5) - sums(cloud).tokens(1e-5)).abs().max())


@torch.no_grad()
def whole_model(cloud: Tensor, chunk: int) -> float:
    """The fields at all points, at once and by chunks: the largest difference, over the largest."""
    model = Transolver(3, 0, 4, size=Size(layers=3, width=64, heads=4, slices=16))
    fields = torch.empty(1, cloud.shape[1], 4)

    def read(first: int, end: int) -> tuple[Tensor, None]:  # coords, and no features
        return cloud[:, first:end], None

    def write(first: int, end: int, part: Tensor) -> None:
        fields[:, first:end] = part

    # Layer by layer: all chunks are sliced, the tokens mixed, and then all chunks go on.
    stream_through(model, Points(cloud.shape[1], read), Sweeping(chunk), write)
    at_once = model(cloud)
    return float((fields - at_once).abs().max() / at_once.abs().max())


def main(points: int = 100_000) -> None:
    torch.manual_seed(0)
    cloud = torch.rand(1, points, 3)
    print(f"{points:,} points; differences to one pass are of the rounding of float32")
    for chunk in (points // 2, points // 7, points // 50):
        tokens, fields = one_layer(cloud, chunk), whole_model(cloud, chunk)
        print(f"{chunk:,} points at a time: tokens differ by {tokens:.0e}, fields by {fields:.0e}")


if __name__ == "__main__":
    main()
