"""Messages that tell users how to install an optional dependency.

The messages refer to a clone of the repository, because the package is not published.
"""

from importlib.util import find_spec


def install_command(extra: str) -> str:
    """Returns the command that installs the extra `extra`, for use in messages."""
    return f"`pip install '.[{extra}]'` in the clone of transduce"


def require_matplotlib() -> None:
    """Raises ValueError if Matplotlib, which is needed for figures in PNG and SVG, is not installed."""
    if find_spec("matplotlib") is None:
        raise ValueError(f"figures in .png and .svg need Matplotlib: {install_command('figures')}; .html does not")
