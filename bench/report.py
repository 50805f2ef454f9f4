"""The report of a measurement: a table in Markdown, written and printed. Python's standard library only."""

import os
import platform
import subprocess


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
    save(path, lines)


def save(path, lines):
    """Writes and prints the lines of a report."""
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def version_of(program):
    """What a program says with `--version`."""
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
