"""Length penalties of other engines, which divide the log-probability of a translation by length^power.

This program divides by ((5 + length) / 6)^α. Both grow equally fast at 20 tokens where α = 1.25 · power.
"""

__all__ = ["length_penalty_of_power", "length_power"]

RATIO = 1.25  # (5 + 20) / 20


def length_penalty_of_power(power: float) -> float:
    """Returns α of the penalty here that is nearest to length^power."""
    return round(RATIO * power, 4)


def length_power(alpha: float) -> float:
    """Returns the power whose penalty is nearest to that of α here."""
    return round(alpha / RATIO, 4)
