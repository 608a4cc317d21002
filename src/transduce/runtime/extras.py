"""How the libraries of an extra are installed; the package is not published, so that its name is not named to pip."""

from importlib.util import find_spec


def install_command(extra: str) -> str:
    """Returns the command that installs an extra, for messages."""
    return f"`pip install '.[{extra}]'` in the clone of transduce"


def require_matplotlib() -> None:
    """Raises ValueError if Matplotlib is not installed, which draws figures in PNG and SVG."""
    if find_spec("matplotlib") is None:
        raise ValueError(f"figures in .png and .svg need Matplotlib: {install_command('figures')}; .html does not")
