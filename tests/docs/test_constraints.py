"""constraints.txt pins every package that `make setup` installs, dependencies of dependencies included."""

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
OF_GPUS = ("cuda-", "nvidia-", "triton")  # dependencies of torch's builds for GPUs; the tested set has the CPU build


def requirements_of(name: str, extras: set[str]) -> list[Requirement]:
    """Returns the requirements of an installed package; none for a package that is not installed."""
    try:
        requirements = [Requirement(line) for line in metadata.requires(name) or []]
    except metadata.PackageNotFoundError:
        return []
    environments = [{"extra": extra} for extra in extras or {""}]
    return [each for each in requirements if each.marker is None or any(map(each.marker.evaluate, environments))]


def test_every_package_of_make_setup_is_pinned() -> None:
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), flags=re.MULTILINE)
    [extras] = re.findall(r"^EXTRAS := ([\w,-]+)$", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    waiting, reached = [("transduce", set(extras.split(",")))], set()
    while waiting:
        name, wanted = waiting.pop()
        for requirement in requirements_of(name, wanted):
            package = str(canonicalize_name(requirement.name))
            if (key := (package, frozenset(requirement.extras))) not in reached and not package.startswith(OF_GPUS):
                reached.add(key)
                waiting.append((package, requirement.extras))
    assert len(reached) > 50
    assert sorted({package for package, _ in reached} - {canonicalize_name(pin) for pin in pins} - {"transduce"}) == []
