"""The report of a measurement: a table in Markdown, written and printed. Python's standard library only."""

import os
import platform


def write(path, title, setting, heads, rows, name):
    """Writes a report. `setting` says what was measured where, and `name` is that of the scenario."""
    lines = [
        f"# {title}",
        "",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores shared by {setting}.",
        "",
        f"| {' | '.join(heads)} |",
        "|" + "---|" * len(heads),
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        f"Repeat with `cargo xtask bench {name}`.",
    ]
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
