"""The optimiser and its schedule."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from slipstream.runs.config import OptimConfig, RunConfig


def make_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW in one kernel. Matrices decay; biases, norms, temperatures, placeholder do not.

    On a GPU the learning rate is a tensor on the device, as a recorded step reads it from there.
    """
    on_gpu = next(model.parameters()).is_cuda
    rate = config.learning_rate
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim >= 2]
    others = [p for p in trained if p.ndim < 2]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=next(model.parameters()).new_tensor(rate, dtype=torch.float32) if on_gpu else rate,
        fused=True,
        capturable=on_gpu,
    )


def freeze(model: nn.Module, config: OptimConfig) -> None:
    """Let the frozen parameters keep their values: neither gradient nor optimiser reaches them.

    Raises ValueError where a pattern is of no parameter, or all are frozen.
    """
    parameters = dict(model.named_parameters())
    config.check_freeze(parameters)
    for name in config.frozen(parameters):
        parameters[name].requires_grad_(False)


def set_learning_rate(optimizer: torch.optim.AdamW, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(step: int, config: RunConfig) -> float:
    """The rate of step 1, 2, ...: linear warm-up, then a cosine, zero after the last step.

    With a rate of 1e-3, 1000 steps and a warm-up of 1 %, steps 1 to 10 have 1e-4 to 1e-3, step 506
    has half of 1e-3.
    """
    length = config.schedule or config.steps
    warmup = max(1, round(config.optim.warmup * length))
    if step <= warmup:
        return config.optim.learning_rate * step / warmup
    progress = (step - 1 - warmup) / max(1, length - warmup)
    return config.optim.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def update(
    model: nn.Module, optimizer: torch.optim.AdamW, loss: Tensor, clip: float
) -> tuple[Tensor, Tensor]:
    """Clip and step, unless loss or gradient are not finite: then the weights stay as they are.

    Returns the norm of the gradient and whether the step was skipped (1.0 or 0.0), both on the
    device: the decision is made there, and the host does not wait for it.
    """
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
    skipped = (~(norm + loss).isfinite()).to(torch.float32)
    # The attribute by which PyTorch's GradScaler tells a fused optimiser to leave a step out.
    optimizer.found_inf = skipped  # type: ignore[attr-defined]
    optimizer.step()
    return norm, skipped


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """The optimiser's state by parameter: "<parameter>.exp_avg", ".exp_avg_sq", ".step"."""
    return {
        f"{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer(
    model: nn.Module, optimizer: torch.optim.AdamW, tensors: dict[str, Tensor]
) -> None:
    """Load a saved state; ValueError where it belongs to other parameters."""
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        for key in ("exp_avg", "exp_avg_sq", "step"):
            if f"{name}.{key}" not in tensors:
                raise ValueError(f"the optimiser's state must have {name}.{key}, got none")
            saved = tensors[f"{name}.{key}"]
            wanted = torch.zeros(()) if key == "step" else parameter
            for what in ("dtype", "shape"):
                expected, got = getattr(wanted, what), getattr(saved, what)
                if got != expected:
                    raise ValueError(
                        f"the optimiser's {name}.{key} must have {what} {_plain(expected)}, got"
                        f" {_plain(got)}"
                    )
            optimizer.state[parameter][key] = saved.to(parameter.device, copy=True)


def _plain(value: torch.dtype | torch.Size) -> str:
    return str(tuple(value) if isinstance(value, torch.Size) else value)
