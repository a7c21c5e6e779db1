"""Shape annotations: jaxtyping where installed (the tests check them), else plain tensors.

jaxtyping is a development dependency, so the package itself must import without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
else:
    try:
        from jaxtyping import Bool, Float
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, _: object) -> type[torch.Tensor]:
                return torch.Tensor

        Bool = Float = _Unchecked

__all__ = ["Bool", "Float"]
