"""Prints the tests that a commit had and this working tree has not: `python stress/test_ids.py COMMIT`.

A refactoring explains each test that vanishes. The exit code is 1 if one does.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def collected(tree: Path) -> set[str]:
    """Returns the ids of all tests of a working tree, the slow ones too."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--no-header", "-p", "no:cacheprovider"]
    listed = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if listed.returncode:
        raise SystemExit(listed.stdout[-2000:] + listed.stderr)
    return {line for line in listed.stdout.splitlines() if "::" in line}


def main() -> None:
    """Compares the two lists."""
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        subprocess.run([*git, "worktree", "add", "--detach", tree, sys.argv[1]], check=True, capture_output=True)
        try:
            old = collected(tree)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", tree], check=True)
    new = collected(ROOT)
    print("\n".join(sorted(old - new)))
    print(f"{len(old - new)} of {len(old)} tests have vanished, {len(new - old)} are new", file=sys.stderr)
    raise SystemExit(bool(old - new))


if __name__ == "__main__":
    main()
