"""Weights of other programs brought in, handed back, and refused."""

from __future__ import annotations

import io
import json
import os
import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from slipstream.interop.certificate import Parity, certify
from slipstream.interop.export_weights import exported, write_exported
from slipstream.interop.import_weights import Import, import_weights
from slipstream.interop.imported_model import as_trained, write_imported
from slipstream.interop.names import gathered
from slipstream.interop.physicsnemo import CONSTANTS, PHYSICSNEMO
from slipstream.interop.sources import NAMINGS
from slipstream.models import Constants, Size
from slipstream.models.transolver import Transolver
from slipstream.runs.model_file import load_model
from slipstream.runs.model_page import model_page

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(path.stem for path in GOLDEN.glob("*.safetensors"))
SMALL = Size(layers=2, width=24, heads=3, slices=5)
TOLERANCE = 1e-12
NOT_COMPARED = Parity(compared=False, reason="not asked for")


def golden(name: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
        return file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def part(tensors: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    return {
        key.removeprefix(f"{kind}."): tensor
        for key, tensor in tensors.items()
        if key.startswith(f"{kind}.") and key != "grad.features"
    }


def saved(state: Any, path: Path) -> Path:
    torch.save(state, path)
    return path


def told(meta: dict[str, str]) -> dict[str, Any]:
    once = meta["variant"] == "slice-once"
    return {"variant": meta["variant"], "heads": 3 if once else None}


def relative(got: Tensor, expected: Tensor) -> float:
    return float((got.detach() - expected).norm() / expected.norm())


@pytest.mark.parametrize("name", FILES)
def test_golden_files_are_computed_and_come_back_to_the_bit(name: str, tmp_path: Path) -> None:
    meta, tensors = golden(name)
    state = part(tensors, "weight")
    imported = import_weights(saved(state, tmp_path / "a.pt"), coord_dim=3, **told(meta))
    model, features = imported.model(), tensors["input.features"].requires_grad_()
    output = model(tensors["input.coords"], features)
    (output * tensors["input.cotangent"]).sum().backward()
    assert relative(output, tensors["output"]) < TOLERANCE
    assert features.grad is not None
    assert relative(features.grad, tensors["grad.features"]) < TOLERANCE
    shapes = {key: tuple(weight.shape) for key, weight in imported.weights.items()}
    expected = gathered(imported.naming, part(tensors, "grad"), shapes, imported.size.layers)
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert relative(parameter.grad, expected[key]) < TOLERANCE, key
    back = exported(model, imported.naming.source)
    dead = {line.partition(":")[0] for line in imported.dropped}
    assert back.keys() == state.keys()
    assert all(torch.equal(back[key], state[key]) for key in state if not is_dead(key, dead))
    assert all(key in dead for key in meta["no_gradient"].split(",") if key)


def is_dead(key: str, dead: set[str]) -> bool:
    return key in dead or key.endswith(".attn.in_proj_bias")


def random_model(constants: Constants, variant: str = "baseline") -> Transolver:
    model = Transolver(3, 2, 4, variant, size=SMALL, constants=constants).double()
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(torch.randn(weight.shape, generator=draw, dtype=weight.dtype) * 0.3)
            if name.endswith("temperature"):  # within the clamp and below it
                weight.copy_(torch.tensor([0.3, 0.6, 0.9]))
    return model


@pytest.mark.parametrize("naming", PHYSICSNEMO, ids=lambda naming: naming.generation)
def test_every_generation_of_physicsnemo_is_told_by_its_keys(naming: Any, tmp_path: Path) -> None:
    from slipstream.interop.names import scattered

    weights = dict(random_model(naming.constants).named_parameters())
    weights["placeholder"] = torch.zeros(24, dtype=torch.float64)
    state = scattered(naming, {key: value.detach() for key, value in weights.items()}, 2)
    state = {f"module._orig_mod.{key}": value for key, value in state.items()}
    state["module.blocks.0.Attn.qkv_project._extra_state"] = torch.zeros(3)
    imported = import_weights(saved({"state_dict": state}, tmp_path / "a.pt"), coord_dim=3)
    assert imported.naming is naming and imported.constants == naming.constants
    assert all(torch.equal(imported.weights[key], weights[key]) for key in weights)


def test_mdlus_archives_as_zip_and_tar_tell_what_they_are(tmp_path: Path) -> None:
    model = random_model(CONSTANTS)
    write_exported(model, "physicsnemo", tmp_path / "a.mdlus")
    with (
        zipfile.ZipFile(tmp_path / "a.mdlus") as archive,
        tarfile.open(tmp_path / "b.mdlus", "w") as tar,
    ):
        for name in archive.namelist():
            info = tarfile.TarInfo(name)
            info.size = len(archive.read(name))
            tar.addfile(info, io.BytesIO(archive.read(name)))
    one, other = (import_weights(tmp_path / name) for name in ("a.mdlus", "b.mdlus"))
    assert one.coord_dim == other.coord_dim == 3 and one.foreign.version == "2.2.2"
    assert all(torch.equal(one.weights[key], other.weights[key]) for key in one.weights)
    coords, features = (torch.randn(1, 17, width, dtype=torch.float64) for width in (3, 2))
    assert relative(one.model()(coords, features), model(coords, features).detach()) < TOLERANCE


def test_the_file_is_loaded_and_shown_with_its_constants(tmp_path: Path) -> None:
    write_exported(random_model(CONSTANTS).float(), "physicsnemo", tmp_path / "a.mdlus")
    imported = import_weights(tmp_path / "a.mdlus")
    trained = as_trained(imported, ["x=m", "y=m", "z=m", "speed=m/s", "angle"])
    certificate = write_imported(tmp_path / "model.safetensors", trained, imported, NOT_COMPARED)
    loaded = load_model(tmp_path / "model.safetensors")
    assert loaded.model.constants == CONSTANTS and loaded.imported == trained.imported
    page = model_page(loaded)
    assert "epsilon 0.01, temperatures [0.5, 5.0]" in page and "physicsnemo 2.0" in page
    assert [field.unit for field in loaded.schema.features] == ["m/s", "1"]
    values = loaded(torch.zeros(4, 3), torch.zeros(4, 2))
    torch.testing.assert_close(
        values[None], imported.model()(torch.zeros(1, 4, 3), torch.zeros(1, 4, 2))
    )
    assert json.loads(certificate.read_text("utf-8"))["constants"]["epsilon"] == 0.01


class Malicious:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


def test_pickles_that_execute_code_are_refused_and_do_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    path = saved({"a": Malicious(ran)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "b.mdlus", "w") as archive:
        archive.write(path, "model.pt")
        archive.writestr("args.json", "{}")
        archive.writestr("metadata.json", "{}")
    whole = saved(nn.Linear(2, 2), tmp_path / "c.pth")
    for file, called in (
        (path, r"posix\.mkdir"),
        (tmp_path / "b.mdlus", r"posix\.mkdir"),
        (whole, r"torch\.nn\.modules\.linear\.Linear"),
    ):
        words = rf"a pickle that calls code when it is read \({called}\): it was not read"
        with pytest.raises(ValueError, match=words) as error:
            import_weights(file, coord_dim=3)
        assert "\n" not in str(error.value)
    assert not ran.exists()


def thuml(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return tensors


def without(key: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda state: {name: value for name, value in state.items() if name != key}


def having(key: str, *shape: int) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda state: {**state, key: torch.zeros(shape)}


ATTN = "blocks.0.Attn"
REFUSED: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "missing": (without("blocks.1.ln_2.bias"), {}, r"must have the key blocks\.1\.ln_2\.bias, got"),
    "left over": (having("blocks.1.gate", 3), {}, r"must have no other keys, got blocks\.1\.gate"),
    "shape": (having(f"{ATTN}.to_q.weight", 8, 9), {}, r"to_q\.weight must have shape \(8, 8\)"),
    "no tensors": (
        lambda state: {"epoch": 3},
        {},
        "must hold tensors by name, got a mapping of ep",
    ),
    "variant": (thuml, {"source": "auto", "variant": None}, "--variant must say .* frozen-slice"),
    "coords": (thuml, {"coord_dim": None}, "--coord-dim must say how many of the 5 inputs"),
    "too many": (thuml, {"coord_dim": 6}, "--coord-dim must be from 1 to the 5 inputs, got 6"),
    "source": (thuml, {"source": "physicsnemo"}, "the keys of physicsnemo, got those of flash"),
    "unknown": (
        lambda state: {"conv.weight": torch.zeros(2)},
        {},
        "keys of thuml, got conv.weight",
    ),
    "structured": (
        having(f"{ATTN}.in_project_x.weight", 24, 24, 3, 3),
        {},
        "structured meshes: its q",
    ),
    "plus": (having(f"{ATTN}.proj_temperature.0.weight", 2), {}, r"a Transolver\+\+: its temper"),
    "time": (having("time_fc.0.weight", 24, 24), {}, "a time embedding: ours has no time"),
    "position": (having("embedding", 1, 64, 64), {}, "unified_pos: it takes distances"),
    "heads": (having(f"{ATTN}.in_project_x.weight", 48, 24), {}, "head width .dim_head. is not"),
    "old": (having("model.preprocess.weight", 2), {}, "of PhysicsNeMo 1.0 or 1.1"),
    "infinite": (
        lambda state: {**state, "placeholder": torch.full((24,), torch.inf)},
        {},
        "finite weights, got others in those of placeholder",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_imported_is_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    change, options, words = REFUSED[case]
    _, tensors = golden("thuml-transolver")
    path = saved(change(part(tensors, "weight")), tmp_path / "a.pt")
    given: dict[str, Any] = {"source": "thuml", "variant": "baseline", "coord_dim": 3} | options
    with pytest.raises(ValueError, match=words):
        import_weights(path, **given)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"structured_shape": [8, 8]}, "structured meshes"),
        ({"plus": True}, r"a Transolver\+\+"),
        ({"time_input": True}, "a time embedding"),
        ({"unified_pos": True}, "unified_pos"),
        ({"act": "relu"}, "another activation than GELU"),
    ],
)
def test_arguments_of_physicsnemo_that_ours_has_not(
    arguments: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write_exported(random_model(CONSTANTS), "physicsnemo", tmp_path / "a.mdlus")
    with (
        zipfile.ZipFile(tmp_path / "a.mdlus") as archive,
        zipfile.ZipFile(tmp_path / "b.mdlus", "w") as other,
    ):
        other.writestr("model.pt", archive.read("model.pt"))
        other.writestr("metadata.json", archive.read("metadata.json"))
        other.writestr("args.json", json.dumps({"__args__": arguments}))
    with pytest.raises(ValueError, match=words):
        import_weights(tmp_path / "b.mdlus")


def test_files_that_are_none_of_weights_are_said_to_be_none(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):  # PyTorch's, that TorchScript is deprecated
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), tmp_path / "script.pt")
    whole = saved({"a": torch.zeros(2)}, tmp_path / "whole.pt").read_bytes()
    none_at_all = r"must be a file of weights \(\.pt or \.pth of torch\.save, .*\), got"
    for name, content, words in (
        ("a.csv", b"x,y,z\n", rf"{none_at_all} one that begins with b'x,y,z"),
        ("b.pt", b"", f"{none_at_all} an empty one"),
        ("c.pt", pickle.dumps({"a": 1}), "must be a whole file of torch.save, got another"),
        ("d.pt", whole[:-40], "must be a whole file of torch.save, got a damaged one or"),
        ("e.mdlus", b"PK\x03\x04half", "must be a whole file of torch.save, got a damaged one or"),
        ("script.pt", None, "got TorchScript, which is code: it was not read"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=words) as error:
            import_weights(tmp_path / name, coord_dim=3)
        assert str(error.value).startswith(str(tmp_path / name))


def test_models_that_the_other_program_would_compute_otherwise_are_not_exported() -> None:
    with pytest.raises(ValueError, match=r"epsilon must be 0\.01 for physicsnemo"):
        exported(random_model(Constants()), "physicsnemo")
    with pytest.raises(ValueError, match="the variant must be one that thuml has"):
        exported(random_model(Constants(), "untied"), "thuml")


def live(naming_source: str, tmp_path: Path) -> list[Import]:
    if naming_source == "physicsnemo":
        write_exported(random_model(CONSTANTS), "physicsnemo", tmp_path / "a.mdlus")
        return [import_weights(tmp_path / "a.mdlus")]
    names = [name for name in FILES if name.startswith("flashslice")]
    found = []
    for name in names:
        meta, tensors = golden(name)
        path = saved(part(tensors, "weight"), tmp_path / f"{name}.pt")
        found.append(import_weights(path, "flashslice", coord_dim=3, **told(meta)))
    return found


@pytest.mark.filterwarnings("ignore")  # of other programs, while they are imported
@pytest.mark.parametrize("source", ["flashslice", "physicsnemo"])
def test_the_certificate_of_a_live_peer(source: str, tmp_path: Path) -> None:
    for imported in live(source, tmp_path):
        parity = certify(imported)
        if not parity.compared and "not installed" in parity.reason:
            pytest.skip(parity.reason)
        assert parity.compared, parity
        assert parity.outputs is not None and parity.outputs < TOLERANCE, parity
        assert parity.inputs is not None and parity.inputs < TOLERANCE, parity
        assert parity.parameters is not None and parity.parameters < TOLERANCE, parity


def test_sources_without_a_package_are_not_compared(tmp_path: Path) -> None:
    _, tensors = golden("thuml-transolver")
    path = saved(part(tensors, "weight"), tmp_path / "a.pt")
    parity = certify(import_weights(path, "thuml", variant="baseline", coord_dim=3))
    assert str(parity) == "not compared: thuml is no installed package"
    assert {naming.source for naming in NAMINGS} == {
        "thuml",
        "flashslice",
        "physicsnemo",
        "linearno",
    }
