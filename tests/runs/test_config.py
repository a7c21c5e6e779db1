from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream import register_variant
from slipstream.core.configs import overlay
from slipstream.core.schemas import parsed
from slipstream.models import Variant, load_plugin
from slipstream.models.plugins import Plugin
from slipstream.runs.config import RunConfig, check_same, is_due, with_variant

from ..conftest import registry_restored
from ..training.small import small

EXAMPLE = Path(__file__).parents[2] / "examples" / "mean_pool.py"


def test_a_config_is_the_same_after_json() -> None:
    config = small(data__points=0.25, model__dots="bf16", schedule=50)
    assert parsed(RunConfig, json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"schedule": 3}, "schedule must be at least the 12 steps, got 3"),
        ({"optim.clip": 0.0}, "optim.clip must be positive, got 0"),
        ({"optim.learning_rate": math.inf}, "optim.learning_rate must be a finite number, got inf"),
        ({"optim.warmup": math.inf}, "optim.warmup must be a finite number, got inf"),
        ({"optim.clip": math.inf}, "optim.clip must be a finite number, got inf"),
        ({"data.points": math.nan}, "data.points must be a finite number, got nan"),
        (
            {"data.builtin.settings": {"number": [1, -math.inf]}},
            r"data.builtin.settings.number\[1\] must be a finite number, got -inf",
        ),
        ({"optim.learning_rat": 1}, "did you mean 'learning_rate'"),
        ({"optim.learning_rate": "fast"}, "optim.learning_rate must be a number, got 'fast'"),
        ({"model.variant": "baselin"}, "did you mean 'baseline'"),
        ({"model.size.width": 9}, "width must be a multiple of heads"),
        ({"precision": "fp16"}, "precision must be one of fp32, bf16, fp64, got 'fp16'"),
        ({"data.workers": -1}, "data.workers must be a whole number of at least 0"),
        ({"data.problem": None}, "data.problem must name the built-in problem"),
        ({"data.builtin.samples": {"train": 0}}, "samples.train must be a whole number"),
        ({"checkpoint_every": 0}, "checkpoint_every must be a whole number of at least 1"),
        ({"skip_limit": -1}, "skip_limit must be a whole number"),
        (
            {"model.dots": "fp8"},
            "model.dots must be one of ieee, tf32, bf16v, bf16, tf32x3, got 'fp8'",
        ),
        ({"model.dots": 8}, "model.dots must be text, got 8"),
    ],
)
def test_bad_fields_are_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        overlay(small(), changes)


@pytest.mark.parametrize(
    ("precision", "dtype", "autocast"),
    [("fp32", torch.float32, False), ("bf16", torch.float32, True), ("fp64", torch.float64, False)],
)
def test_a_precision_is_a_dtype_and_autocast_or_not(
    precision: str, dtype: torch.dtype, autocast: bool
) -> None:
    config = small(precision=precision)
    assert config.dtype == dtype
    with config.autocast(torch.device("cpu")):
        assert torch.is_autocast_enabled("cpu") == autocast
        product = torch.ones(2, 2, dtype=dtype) @ torch.ones(2, 2, dtype=dtype)
    assert product.dtype == (torch.bfloat16 if autocast else dtype)


def test_differing_fields_are_named_and_some_are_free() -> None:
    base = small()
    check_same(base, small(data__workers=3, data__store="x", keep=9, log_every=7), "R")
    with pytest.raises(ValueError) as caught:
        check_same(base, small(seed=5, model__size__layers=3), "R")
    assert "the one R was begun with" in str(caught.value)
    assert "model.size.layers: 2, 3; seed: 0, 5" in str(caught.value)


def test_a_config_says_which_plug_in_its_variant_is_from() -> None:
    with registry_restored():
        load_plugin(EXAMPLE)
        config = with_variant(small(), "mean-pool")
        assert config == small(model__variant="mean-pool")
        plugin = config.model.plugin
        assert plugin is not None and plugin.file == "mean_pool.py"
        config.model.check_loaded("R")
        assert with_variant(config, "untied").model.plugin is None
        register_variant(Variant("mine", "x", mix="linear"))
        by_hand = with_variant(config, "mine")
        assert by_hand.model.plugin == Plugin(None, None)
    for one in (config, by_hand):
        assert parsed(RunConfig, json.loads(json.dumps(one.to_json()))) == one, "readable"
    needs = "'mean-pool' of R is not built in: it needs the plug-in mean_pool.py; add --plugin FI"
    with pytest.raises(ValueError, match=needs):
        config.model.check_loaded("R")
    with pytest.raises(ValueError, match="'mine' of R is not built in: the program that regist"):
        by_hand.model.check_loaded("R")
    with pytest.raises(ValueError, match=r"variant must be .*, got 'mean-pool' \(--plugin FILE"):
        with_variant(config, "mean-pool")
    other = replace(config, model=replace(config.model, plugin=Plugin("mean_pool.py", "another")))
    check_same(config, other, "R")


def test_a_config_from_before_there_were_plug_ins() -> None:
    older = json.loads(json.dumps(small().to_json()))
    assert older["model"].pop("plugin", "") is None
    assert parsed(RunConfig, older) == small()


def test_what_is_due() -> None:
    assert [step for step in range(1, 11) if is_due(step, 4, 10)] == [4, 8, 10]
