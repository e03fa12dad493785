"""How fast reports are written, opened and zoomed: SDSC-BLUE, and 2,551,075 instances.

    pytest tests/benchmarks/test_report_speed.py -m slow -s

prints seconds, MB, and for each zoom the milliseconds of a frame in headless Chromium, the least of
several; the figures are recorded in docs/benchmarks.md. Sizes are asserted, times are not: they
depend on what else the machine does.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from browser import Page, chromium

import simkit
from simkit.report.report import write_report

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SIMKIT_DATA", ROOT.parent / "shared" / "data"))

FRAMES = """async ([steps, rows]) => {
  const canvas = document.querySelector("canvas.gantt"), box = canvas.getBoundingClientRect();
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const at = { clientX: box.left + box.width * 0.6, clientY: box.top + 150, bubbles: true, cancelable: true };
  const key = (name) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  canvas.focus();
  key("Home");
  for (let n = 0; n < rows; n++) key("PageUp"); // half of the rows each time
  await frame();
  const zooms = [];
  for (let zoom = 0; zoom < 40; zoom++) {
    const paints = [], whole = [];
    for (let n = 0; n < 8; n++) { // there and back, one move a frame
      const begin = performance.now();
      key(n % 2 ? "ArrowLeft" : "ArrowRight");
      key(n % 2 ? "ArrowUp" : "ArrowDown");
      canvas.dispatchEvent(new PointerEvent("pointermove", { ...at, clientX: at.clientX + n })); // where no key moves
      await frame();
      paints.push(Number(document.documentElement.dataset.paintMs));
      await frame();
      whole.push((performance.now() - begin) / 2);
    }
    zooms.push({
      share: canvas.dataset.to - canvas.dataset.from, rows: canvas.dataset.high - canvas.dataset.low, mode: canvas.dataset.mode,
      bars: Number(canvas.dataset.bars), paint: Math.min(...paints), frame: Math.min(...whole),
    });
    const before = canvas.dataset.to - canvas.dataset.from;
    canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -steps }));
    await frame();
    await frame();
    if (canvas.dataset.to - canvas.dataset.from === before) break;
  }
  return zooms;
}"""


def blue(folder: Path) -> Any:
    """Replay SDSC-BLUE under EASY."""
    log = DATA / "swf" / "SDSC-BLUE-2000-4.2-cln.swf.gz"
    if not log.exists():
        pytest.skip(f"no {log}; set SIMKIT_DATA")
    policy = {"order": "fcfs", "backfill": "easy"}
    simkit.simulate(
        {"workload": {"type": "swf", "path": str(log)}, "policy": policy}, output=folder
    )


def instances(folder: Path) -> Any:
    """Replay CloudSimPy's job table on 1,313 machines, a run time drawn for each instance."""
    table = DATA / "alibaba" / "cloudsimpy_jobs.csv.gz"
    if not table.exists():
        pytest.skip(f"no {table}; set SIMKIT_DATA")
    tasks = pl.read_csv(table)
    rows = np.repeat(np.arange(len(tasks)), tasks["instances_num"].to_numpy())
    drawn = np.random.default_rng(0).exponential(1.0, len(rows))
    columns = {n: tasks[n].gather(rows) for n in ("job_id", "task_id", "submit_time", "cpu")}
    length = np.maximum(1e-3, np.round(tasks["duration"].to_numpy()[rows] * drawn, 3))
    path = folder.with_suffix(".csv")
    pl.DataFrame({**columns, "length": length, "mem": tasks["memory"].gather(rows)}).write_csv(path)
    names = {n: n for n in ("job_id", "task_id", "cpu", "mem")}
    simkit.simulate(
        {
            "workload": {
                "type": "tasks", "path": str(path), "rows": "instance",
                "columns": {**names, "submit_time_s": "submit_time", "run_time_s": "length"},
            },
            "cluster": {"trace": {"path": str(DATA / "alibaba" / "server_event.csv")}},
            "policy": {"fitness": "first-fit"},
        },
        output=folder,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("replay", "most_mb"), [(blue, 15), (instances, 40)])
def test_a_report(
    replay: Any, most_mb: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replay(tmp_path / "run")
    before, busy = time.perf_counter(), time.process_time()
    page = write_report(tmp_path / "run", tmp_path / "report.html")
    seconds, processor = time.perf_counter() - before, time.process_time() - busy
    size = page.stat().st_size / 1e6
    lines = [f"written in {seconds:.1f} s ({processor:.1f} s of processor time), {size:.1f} MB"]
    with chromium() as browser:
        opened = []
        for _ in range(3):
            begin = time.perf_counter()
            shown = Page(browser, page, "html[data-ready]")
            ready = time.perf_counter() - begin
            script = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            opened.append((shown.page.evaluate(script), ready))
            if len(opened) < 3:
                shown.close()
        lines.append(f"first paint after {min(p for p, _ in opened):.0f} ms, "
                     f"all there after {min(r for _, r in opened):.1f} s")  # fmt: skip
        zooms = [zoom for rows in (0, 3, 6) for zoom in shown.page.evaluate(FRAMES, [350, rows])]
        assert shown.problems == []
        shown.close()
    lines += [
        f"{zoom['share'] / zooms[0]['share']:9.1e} of the time, {zoom['rows']:9,.0f} rows: "
        f"{zoom['mode']:6} {zoom['bars']:6} bars, "
        f"paint {zoom['paint']:5.1f} ms, frame {zoom['frame']:5.1f} ms"
        for zoom in zooms
    ]
    with capsys.disabled():
        print(f"\n{replay.__name__}\n  " + "\n  ".join(lines))
    assert size < most_mb
    assert {zoom["mode"] for zoom in zooms} >= {"grid", "bars"}
