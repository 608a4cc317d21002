"""The facts of a run, named and written as the page and the text show them."""

from transduce.report.measurement import RunReport

__all__ = ["facts_of"]


def facts_of(run: RunReport) -> dict[str, str]:
    """Returns what a run is and what it cost; a fact that the run has not is empty."""
    config = run.config
    languages = ", ".join(map(str, config.directions)) or f"{config.source_language} → {config.target_language}"
    sizes = f"{config.vocabulary.source:,} and {config.vocabulary.target:,}"
    speed = f"{run.tokens / run.seconds:,.0f}" if run.seconds else ""
    steps = ", ".join(f"{step:,}" for step in config.weights.steps)  # an imported model has none
    return {
        "languages": languages if config.directions or config.source_language else "",
        "model": f"{type(config.model).__name__}, {config.model.d_model} wide",
        "parameters": f"{run.parameters:,}",
        "subwords of source and target": sizes,
        "weights": f"{config.weights.kind}, of step {steps}" if steps else config.weights.kind,
        "decoding": ", ".join(f"{key} {value}" for key, value in config.decoding.as_dictionary().items()),
        "minutes of training": f"{run.seconds / 60:,.1f}" if run.seconds else "",
        "target tokens of training": f"{run.tokens:,}" if run.tokens else "",
        "target tokens a second": speed,
    }
