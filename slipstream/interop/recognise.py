"""Physics attentions of other packages, recognised by the names and shapes of their parts.

No package is imported: a class copied into somebody's own repository is recognised as well.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from slipstream.interop.attention_forward import Attention, Layout
from slipstream.kernels.pointwise import has_hooks

_MARKS = ("in_project_x", "in_project_fx", "in_project_slice", "temperature")
_COMMON = {"in_project_x", "in_project_fx", "in_project_slice"}
_PARTS: dict[Layout, set[str]] = {
    "split": {*_COMMON, "to_q", "to_k", "to_v", "to_out", "dropout"},
    "joined": {*_COMMON, "qkv_project", "out_linear", "out_dropout"},
}
"""The submodules that each layout must have."""
_MORE = {"softmax", "dropout", "slice_down", "in_project_deslice"}
"""Those that it may have besides."""
_KINDS: dict[str, tuple[type[nn.Module], ...]] = {
    "softmax": (nn.Softmax,),
    "dropout": (nn.Dropout,),
    "out_dropout": (nn.Dropout,),
    "slice_down": (nn.Identity, nn.Linear),
}
"""The classes of the submodules that are not Linear."""
_BIASED = ("in_project_x", "in_project_fx", "in_project_slice", "in_project_deslice", "out_linear")


class Unlike(Exception):
    """The reason, a clause about "it", why a module is no physics attention that we compute."""


def looks_alike(module: nn.Module) -> bool:
    """Whether it has so much in common with a physics attention that the report must name it."""
    own = {*dict(module.named_children()), *dict(module.named_parameters(recurse=False))}
    slices_once = {"slice_proj", "slice_temperature"} <= own
    return len(own.intersection(_MARKS)) >= 2 or slices_once or "tempreature_k" in own


def recognise(module: nn.Module) -> Attention:
    """The physics attention that the module seems to be, by its structure; `trial` makes sure.

    Raises Unlike with the reason where it is none, or one that our kernels do not compute.
    """
    layout = _layout(module)
    _check_parts(module, layout)
    attention = _sizes(module, layout)
    _check_shapes(module, attention)
    _check_call(module)
    return attention


def shares_slices(module: nn.Module) -> bool:
    """Whether this model takes the slice weights of its first layer through all others."""
    return getattr(module, "share_slice_across_layers", False) is True


def _layout(module: nn.Module) -> Layout:
    names = dict(module.named_children())
    if isinstance(names.get("in_project_x"), _ConvNd):
        kind = type(names["in_project_x"]).__name__
        raise Unlike(f"its projections are convolutions of a structured mesh ({kind})")
    if getattr(module, "plus", False) or "proj_temperature" in names:
        raise Unlike("it is Transolver++, with random weights and a temperature for each point")
    if "slice_proj" in names:
        raise Unlike("it slices once for the whole model, which has no attention by itself")
    if "tempreature_k" in dict(module.named_parameters(recurse=False)):
        raise Unlike("it is LinearNO, which normalises its weights over the points")
    return "joined" if "qkv_project" in names else "split"


def _check_parts(module: nn.Module, layout: Layout) -> None:
    """Raise Unlike unless the submodules are those of the layout, all plain layers of PyTorch."""
    if isinstance(module, torch.jit.ScriptModule):
        raise Unlike("it is a script of TorchScript, whose forward is fixed")
    if "forward" in vars(module):
        raise Unlike("its forward has been replaced already, on the object itself")
    if list(module.buffers()):
        raise Unlike("it has buffers, which no known physics attention has")
    children = dict(module.named_children())
    if missing := sorted(_PARTS[layout] - children.keys()):
        raise Unlike(f"it has no {missing[0]}")
    if more := sorted(children.keys() - _PARTS[layout] - _MORE):
        raise Unlike(f"it also has {more[0]}, which no known physics attention has")
    for name, part in children.items():
        _check_part(name, part)
    if layout == "split" and not isinstance(getattr(module, "scale", None), float):
        raise Unlike("it has no scale, the number by which its scores are multiplied")


def _check_part(name: str, part: nn.Module) -> None:
    """Raise Unlike unless the submodule of this name is the layer of PyTorch that it should be."""
    if name == "to_out" and type(part) is nn.Sequential:
        if [type(own) for own in part] != [nn.Linear, nn.Dropout]:
            raise Unlike("its to_out is not a Linear and a Dropout")
        if has_hooks(part):
            raise Unlike("its to_out has hooks, which our forward would not call")
        return
    expected = _KINDS.get(name, (nn.Linear,))
    if type(part) not in expected:
        kind = f"{type(part).__module__}.{type(part).__qualname__}"
        raise Unlike(f"its {name} is a {kind}, not a {expected[-1].__name__} of PyTorch")
    if name in ("in_project_slice", "in_project_deslice") and has_hooks(part):
        raise Unlike(f"its {name} has hooks, which our forward would not call")


def _sizes(module: Any, layout: Layout) -> Attention:
    temperature = getattr(module, "temperature", None)
    if not isinstance(temperature, nn.Parameter):
        raise Unlike("it has no temperature")
    width = module.in_project_x.in_features
    heads, head_width = temperature.numel(), module.in_project_slice.in_features
    if getattr(module, "heads", heads) != heads:
        raise Unlike(f"it has {module.heads} heads and {heads} temperatures")
    return Attention(
        layout=layout,
        width=width,
        heads=heads,
        head_width=head_width,
        slices=module.in_project_slice.out_features,
        untied=hasattr(module, "in_project_deslice"),
        mixes=not getattr(module, "no_token_attention", False),
    )


def _check_shapes(module: nn.Module, attention: Attention) -> None:
    """Raise Unlike unless the parameters are those of the layout and have its shapes."""
    own = dict(module.named_parameters())
    expected = _shapes(module, attention)
    if different := sorted(own.keys() ^ expected.keys()):
        has = "also has" if different[0] in own else "lacks"
        raise Unlike(f"it {has} the parameter {different[0]}")
    for name, shape in expected.items():
        got = tuple(own[name].shape)
        if name.endswith("temperature"):
            got = (own[name].numel(),)
        if got != shape:
            raise Unlike(
                f"its head layout is another: {name} has shape {got}, expected {shape} for"
                f" {attention.heads} heads of width {attention.head_width}"
            )
    others = {str(p.device) for p in own.values()} | {str(p.dtype) for p in own.values()}
    if len(others) > 2 or "meta" in others:
        raise Unlike(f"its parameters are not all of one device and dtype: {sorted(others)}")
    if kinds := {type(p) for p in own.values()} - {nn.Parameter, Tensor}:
        raise Unlike(f"its parameters are sharded or wrapped ({kinds.pop().__name__})")


def _shapes(module: Any, attention: Attention) -> dict[str, tuple[int, ...]]:
    """The parameters of an attention of these sizes."""
    width, head, slices = attention.width, attention.head_width, attention.slices
    inner = attention.heads * head
    shapes: dict[str, tuple[int, ...]] = {"temperature": (attention.heads,)}
    linears = {"in_project_x": (inner, width), "in_project_fx": (inner, width)}
    linears["in_project_slice"] = (slices, head)
    if attention.untied:
        linears["in_project_deslice"] = (slices, head)
        shapes["deslice_temperature"] = (attention.heads,)
    if attention.layout == "joined":
        linears |= {"qkv_project": (3 * head, head), "out_linear": (width, inner)}
    else:
        between = module.to_q.out_features
        linears |= {name: (between, head) for name in ("to_q", "to_k", "to_v")}
        linears["to_out.0"] = (width, inner)
        if isinstance(getattr(module, "slice_down", None), nn.Linear):
            linears["slice_down"] = (head, between)
    for name, shape in linears.items():
        shapes[f"{name}.weight"] = shape
        if name in (*_BIASED, "to_out.0"):
            shapes[f"{name}.bias"] = shape[:1]
    return shapes


def _check_call(module: nn.Module) -> None:
    """Raise Unlike unless the forward takes x alone, or also flashslice's slice weights."""
    names = list(inspect.signature(type(module).forward).parameters)[1:]
    if names not in (["x"], ["x", "slice_weights_in"]):
        raise Unlike(f"its forward takes ({', '.join(names)}), not (x)")
