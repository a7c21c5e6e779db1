"""Copy the figures that this repository shows, each with 256 colours: a third of the bytes.

python figures.py FROM TO NAME.png ...      a name that is not in FROM is left as it is in TO
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image


def copy_figures(source: Path, target: Path, names: list[str]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (source / name).exists():
            with Image.open(source / name) as image:
                image.convert("RGB").quantize(256).save(target / name, optimize=True)
        else:
            print(f"{name}: not in this report, for which predictions are needed; left as it is")


if __name__ == "__main__":
    copy_figures(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
