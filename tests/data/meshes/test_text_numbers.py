from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.data.meshes import mesh_info


def test_a_zero_byte_in_a_number_of_text(tmp_path: Path) -> None:
    """numpy would pass over it, and VTK stops there: it read a PLY file without its faces."""
    good = b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
    good += b"property float z\nend_header\n0.125 0.5 0.75\n"
    path = tmp_path / "a.ply"
    path.write_bytes(good)
    assert mesh_info(path).points == 1
    path.write_bytes(good.replace(b"0.125", b"0.1\0\0"))
    with pytest.raises(ValueError, match="a.ply must .*, got a zero byte in text"):
        mesh_info(path)
    text = b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
    text += b"endloop\nendfacet\nendsolid a\n"
    path = tmp_path / "a.stl"
    path.write_bytes(text.replace(b"vertex 1 0 0", b"vertex 1\0 0 0"))
    with pytest.raises(ValueError, match="a.stl must be a whole STL file, got a zero byte in text"):
        mesh_info(path)
