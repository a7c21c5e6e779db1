"""The measurement of streaming: its gate, its cloud, its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from slipstream.bench import streaming as streams
from slipstream.bench.streaming import Cloud, StreamingCase, judge_streaming, measure_streaming
from slipstream.bench.streaming_tables import cells
from slipstream.cli.bench import app
from slipstream.cli.bench_streaming import parse_count
from slipstream.core.records import read_records
from slipstream.models.variants import Size

SMALL = StreamingCase(points=1500, chunk=400, size=Size(layers=2, width=32, heads=1))


def test_bench_streaming(tmp_path: Path) -> None:
    out = tmp_path / "o" / "streaming.jsonl"
    arguments = ["--points", "2k", "--width", "32", "--layers", "2", "--chunk", "300"]
    arguments += ["--place", "file", "--folder", str(tmp_path), "--one-pass", "--out", str(out)]
    done = CliRunner().invoke(app, ["streaming", *arguments])
    assert done.exit_code == 0, done.output
    (many,) = read_records(out, "streaming")
    assert many["case"]["points"] == 2000
    assert many["name"] == "streaming 2k fp32 C=32 L=2 chunk 300 file" and many["commit"]
    assert many["gate"]["green"] and many["gate"]["ratios"]["fp64"] < 1e-12
    result = many["result"]
    assert (result["chunk"], result["place"]) == (300, "file")
    assert result["parked_gb"] == 2000 * 32 * 4 / 1e9
    assert result["one_pass"]["distance"] < 1e-5 < result["one_pass"]["largest_output"]
    assert result["points_per_cpu_second"] == 2000 / result["cpu_s"]
    assert f"Records: {out}" in done.output and "2,000 points" in result["plan"]
    text = out.with_suffix(".md").read_text()
    assert text.count("| streaming ") == 1 and "peak above the model, GB" in text
    assert sorted(path.name for path in out.parent.iterdir()) == ["streaming.jsonl", "streaming.md"]


@pytest.mark.parametrize("place", ["auto", "recompute"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_all_points_are_streamed(place: Any, dtype: Any) -> None:
    case = StreamingCase(**{**vars(SMALL), "place": place, "dtype": dtype})
    record = measure_streaming(case, device="cpu")
    assert record["gate"]["green"] and "CPU" in record["device"]
    model = streams._model(case, "cpu")
    with torch.no_grad(), streams._autocast(case, "cpu"):
        outputs = model(*Cloud(1500, torch.device("cpu")).read(0, 1500)).double()
    mean_square = float(outputs.square().mean())
    assert record["result"]["mean_square"] == pytest.approx(mean_square, rel=1e-3)


def test_the_cloud_does_not_depend_on_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BLOCK", 10)
    cloud = Cloud(35, torch.device("cpu"))
    whole = torch.cat(cloud.read(0, 35), -1)  # type: ignore[arg-type]
    parts = [torch.cat(cloud.read(a, b), -1) for a, b in ((0, 7), (7, 20), (20, 35))]  # type: ignore[arg-type]
    assert torch.equal(torch.cat(parts, 1), whole)
    assert len(torch.unique(whole)) == 35 * 8, "blocks differ"


def test_a_wrong_stream_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = streams.stream_through

    def wrong(model: Any, points: Any, how: Any, write: Any) -> Any:
        return real(model, points, how, lambda a, b, part: write(a, b, part * (1 + 1e-11)))

    monkeypatch.setattr(streams, "stream_through", wrong)
    assert not judge_streaming(SMALL, "cpu").green
    record = measure_streaming(SMALL, device="cpu")
    assert record["result"] is None and record["error"] == "the gate is red"
    assert "failed: the gate is red" in cells({**record, "name": "x"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--points", "1.5"), "points must be a whole number of at least 1, as in 65536, 64k or"),
        (("--points", "1M,x"), "got 'x'"),
        (("--points", "9", "--chunk", "0"), "chunk must be a whole number of at least 1"),
        (("--points", "9", "--width", "40"), "width must be a multiple of 32, the width of a head"),
        (("--points", "9", "--layers", "0"), "layers must be a whole number of at least 1, got 0"),
        (("--points", "9", "--place", "disk"), "place must be one of auto, device, host, file"),
        (("--points", "9", "--dtype", "fp8"), "dtype must be one of fp32, bf16, got 'fp8'"),
        (("--points", "9", "--variant", "none"), "variant"),
        (("--points", "9", "--out", "."), "out must be a file of records, got the folder ."),
        (("--points", "9", "--folder", "nowhere"), "folder must be a folder for the file of"),
    ],
)
def test_bad_input_is_a_sentence(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        CliRunner().invoke(app, ["streaming", *arguments], catch_exceptions=False)
    assert message in str(raised.value)


def test_counts() -> None:
    texts = ("1", "65536", "64k", "1.5M", " 133M")
    assert [parse_count("points", text) for text in texts] == [
        1, 65_536, 64_000, 1_500_000, 133_000_000
    ]  # fmt: skip
