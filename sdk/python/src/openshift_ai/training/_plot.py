"""Metrics as charts for notebooks: SVG, so that nothing has to be installed. Texts are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._models import JobMetrics

_WIDTH, _HEIGHT, _MARGIN = 420, 140, 24
#: Colours that differ for people who see few of them, each with a pattern of dashes.
_LINES = (("#0066cc", ""), ("#c46100", "6 3"), ("#3e8635", "2 3"), ("#6753ac", "8 3 2 3"))
#: The most lines of a chart: more cannot be told apart.
_MOST_LINES = 8
#: What is measured of pods and their GPUs.
_MEASURED = {
    "gpuUtilizationPercent": "GPU utilization (%)",
    "gpuMemoryMib": "GPU memory (MiB)",
    "powerWatts": "GPU power (W)",
    "networkReceivedKib": "Network received (KiB/s)",
    "networkSentKib": "Network sent (KiB/s)",
}


def chart(title: str, lines: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> str:
    """A chart of named lines: names, seconds and numbers."""
    shown = [line for line in lines if line[1] and line[2]][:_MOST_LINES]
    if not shown:
        return ""
    latest = max(max(times) for _, times, _ in shown) or 1
    lowest, highest = min(min(v) for _, _, v in shown), max(max(v) for _, _, v in shown)
    spread = (highest - lowest) or 1
    drawn = ""
    for index, (name, times, values) in enumerate(shown):
        colour, dashes = _LINES[index % len(_LINES)]
        points = " ".join(
            f"{_MARGIN + time / latest * (_WIDTH - 2 * _MARGIN):.1f},"
            f"{_HEIGHT - _MARGIN - (value - lowest) / spread * (_HEIGHT - 2 * _MARGIN):.1f}"
            for time, value in zip(times, values, strict=False)
        )
        drawn += (
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}" points="{points}">'
            f"<title>{escape(name)}</title></polyline>"
        )
    label = escape(f"{title}: {lowest:g} to {highest:g} in {latest:g} seconds", quote=True)
    names = ", ".join(escape(name) for name, _, _ in shown)
    return (
        f'<figure style="display:inline-block;margin:8px;font-family:sans-serif;font-size:12px">'
        f"<figcaption><b>{escape(title)}</b> ({lowest:g} to {highest:g}): {names}</figcaption>"
        f'<svg role="img" aria-label="{label}" width="{_WIDTH}" height="{_HEIGHT}">'
        f'<rect width="100%" height="100%" fill="#f5f5f5"/>{drawn}</svg></figure>'
    )


def metrics(found: JobMetrics) -> str:
    """A chart for each metric of the training, for the CPU and memory of the pods, and for what else is measured of them."""
    charts = [
        chart(one.name, [(one.name, [p.seconds for p in one.points], [p.value for p in one.points])])
        for one in found.training
    ]
    charts.append(chart("CPU (cores)", [(p.name, p.seconds, [m / 1000 for m in p.cpu_millis]) for p in found.pods]))
    charts.append(chart("Memory (MiB)", [(p.name, p.seconds, p.memory_mib) for p in found.pods]))
    for name, title in _MEASURED.items():
        series = [(pod.name, one) for pod in found.pods for one in pod.measured if one.name == name]
        lines = [(f"{pod} GPU {one.gpu}" if one.gpu else pod, one.seconds, one.values) for pod, one in series]
        charts.append(chart(title, lines))
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    return "".join(charts) + (f'<ul style="font-family:sans-serif">{notes}</ul>' if notes else "")
