"""Programs in processes of their own, which a fault may end without ending the tests."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command(folder: Path, text: str) -> list[str]:
    """The command that runs a program: scripts need a file that their source can be read from."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, str(path)]


def environment(**variables: str) -> dict[str, str]:
    """That of the tests, without knobs of jitgrad but `variables`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JITGRAD_")}
    return {**kept, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "JITGRAD_CACHE": "off", **variables}


def run(folder: Path, text: str, **variables: str) -> str:
    """What a program prints; it must end well, within two minutes."""
    done = subprocess.run(command(folder, text), env=environment(**variables), capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
