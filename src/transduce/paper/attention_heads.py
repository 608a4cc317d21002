"""Analyses the attention heads of the demo's model (section 4, figures 3 to 5).

The model is trained with several seeds. The experiment measures which roles its heads have, takes pictures of the best
heads, and measures what the model loses when heads are removed.
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

import transduce
from transduce.corpus.readers import ParallelText
from transduce.embedded import Example, split
from transduce.model_directory.model import Model
from transduce.pages.attention_drawing import AttentionMap, head_colours, subword_labels
from transduce.paper.experiment_scales import ExperimentOptions
from transduce.paper.finished_runs import as_json, recorded_seeds
from transduce.paper.head_ablation import ALL, QUARTERS, Removal, measure_removals
from transduce.paper.head_roles import ALIGNED, Head, RoleShares, measure_roles, right_answers
from transduce.paper.printing import STYLES, confidence_interval, panels, render_page
from transduce.paper.trials import Budget, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe.recipe import from_values
from transduce.recipe.recipe_values import read_yaml
from transduce.translation.translator import Translator

ROW, MINUTES = "demo", 5.0  # each run takes as many minutes as that of `transduce demo`
SENTENCES = 300  # of the test set
MANY, CHEAP = 0.25, 0.005  # a larger share of the heads counts as many; a smaller loss of accuracy counts as none
WIDTH = 760.0  # of the pictures of heads, in points
MEASURE = f"heads in {SENTENCES} sentences"  # the key of these measurements in the records
PARTS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention", ALL: ALL}


class HeadPicture(NamedTuple):
    """The attention weights of the best head for a role, in one sentence."""

    role: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: list[list[float]]  # [queries keys]


class SeedHeads(NamedTuple):
    """The training run with one seed, and the roles of the attention heads of its model."""

    training: TrialResult  # without measures
    roles: list[RoleShares]
    alignment_errors: list[float]  # alignment error rate of each decoder layer
    removals: list[Removal]
    pictures: list[HeadPicture]

    def followers(self, *, trained: bool) -> int:
        """Returns the number of encoder heads that follow at least one relation.

        The heads are those of the trained model or, if `trained` is False, those of the model before training.
        """
        relations = [role if trained else role.before for role in self.roles if role.is_relation]
        return len({head for relation in relations for head in relation.followers})

    def costs(self, part: str) -> dict[Head, float]:
        """Returns, for each head of a part, the accuracy that the model loses if only this head is removed."""
        single = [each for each in self.removals if each.part == part and each.bleu is None]
        return {each.heads[0]: self.removals[0].accuracy - each.accuracy for each in single}

    @property
    def quarters(self) -> dict[str, list[Removal]]:
        """For each part, the measurements of the model without each of `QUARTERS` of the part's heads."""
        return {part: [each for each in self.removals if each.part == part and each.bleu is not None] for part in PARTS}


def run_heads(options: ExperimentOptions) -> tuple[str, list[SeedHeads]]:
    """Trains the demo's model with several seeds; returns a description of the corpus and the heads of every seed."""
    work, budget = options.work, Budget("time", minutes=options.minutes or MINUTES)
    shared_store(_trial(1, budget).recipe, work)
    for seed in range(1, options.seeds + 1):
        run_trial(_trial(seed, budget), work, [budget], options.training)
    results = (read_trial(_trial(seed, budget), work, budget) for seed in recorded_seeds(work, ROW))
    measured = [result for result in results if result and MEASURE in result.measures]
    seeds = [SeedHeads(result._replace(measures={}), **result.measures[MEASURE]) for result in measured]
    return "the embedded corpus, 40,000 pairs, 4,000 subwords", seeds


def _trial(seed: int, budget: Budget) -> Trial:
    values = read_yaml(Path(transduce.__file__).with_name("demo_translating.yaml"))
    recipe = from_values(values, [f"training.seed={seed}", f"training.minutes={budget.minutes}"], place="the demo")
    return Trial(f"{ROW}-{seed}", recipe, recipe.data.test["test"], {MEASURE: partial(_measure, seed)})


def _measure(seed: int, model: Model, _outputs: Sequence[str]) -> object:
    """Returns the fields of `SeedHeads` other than the training run, as JSON values."""
    examples = split("test", count=SENTENCES)
    roles, errors = measure_roles(model, examples, seed)
    pictures = _take_pictures(model, {role.name: role for role in roles}, examples[1::2])
    lines = [each.source for each in examples], [each.target for each in examples]
    removals = measure_removals(model, *(ParallelText(*(side[half::2] for side in lines)) for half in (0, 1)))
    return as_json({"roles": roles, "alignment_errors": errors, "removals": removals, "pictures": pictures})


def _take_pictures(model: Model, roles: dict[str, RoleShares], examples: Sequence[Example]) -> list[HeadPicture]:
    """Returns the attention weights of the best heads for the previous word, for one relation and for the aligned word.

    The relation is the one for which the best head finds the most words that its rival does not find. The sentence is
    the first long one that contains this relation.
    """
    relation = max((role for role in roles.values() if role.is_relation), key=lambda role: role.gain * role.cases[1])
    example = next(each for each in examples if len(each.source_tokens) > 9 and relation.name in right_answers(each))
    translator = Translator.of_models([model.module], model.source, model.target, model.config.decoding)
    explanation = translator.explain(example.source, example.target)
    source, target = subword_labels(explanation.source), subword_labels(explanation.target)
    pictures = []
    for role in (roles["previous word"], relation, roles[ALIGNED]):
        queries, layers = (target, explanation.cross) if role.name == ALIGNED else (source, explanation.encoder)
        weights = layers[role.best.layer][role.best.number].astype(float)
        pictures.append(HeadPicture(role.name, queries, source, np.round(weights, 3).tolist()))
    return pictures


def decide(values: Sequence[float], least: float) -> str:
    """Compares the confidence interval of a mean over seeds with `least`.

    Returns "holds" if the interval lies above `least`, "fails" if it lies below, "open" if it contains `least`, and
    "one seed" if there is only one value and therefore no interval.
    """
    mean, half_width = confidence_interval(values)
    if half_width is None:
        return "one seed"
    return "holds" if mean - half_width > least else "fails" if mean + half_width < least else "open"


def verdicts_of_roles(seeds: Sequence[SeedHeads]) -> dict[str, str]:
    """Returns the verdict on each role, by its name; a role holds if its mean gain over the seeds is above zero."""
    gains: dict[str, list[float]] = {}
    for role in chain.from_iterable(seed.roles for seed in seeds):
        gains.setdefault(role.name, []).append(role.gain)
    return {name: decide(of_seeds, 0.0) for name, of_seeds in gains.items()}


def heads_with_roles(seeds: Sequence[SeedHeads], without: Sequence[str] = ()) -> list[int]:
    """Returns, for each seed, how many different heads are the best head for a role that holds.

    The roles in `without` are not counted.
    """
    verdicts = verdicts_of_roles(seeds)
    held = [name for name, verdict in verdicts.items() if verdict == "holds" and name not in without]
    return [len({role.best for role in seed.roles if role.name in held}) for seed in seeds]


def as_text(seeds: Sequence[SeedHeads]) -> str:
    """Renders the paper's sentences with their verdicts, and the tables on which the verdicts are based."""
    roles = {of_seeds[0].name: of_seeds for of_seeds in zip(*(seed.roles for seed in seeds), strict=True)}
    verdicts, different = verdicts_of_roles(seeds), heads_with_roles(seeds)
    followers, before = ([seed.followers(trained=trained) for seed in seeds] for trained in (True, False))
    return render_page(
        "heads.md.jinja",
        seeds=seeds,
        roles=roles,
        verdicts=verdicts,
        tasks=(different, decide(different, 1.0)),
        structure=(followers, decide(followers, MANY * len(seeds[0].costs("encoder"))), before),
        parts=PARTS,
        cheap=CHEAP,
        interval=confidence_interval,
        sentences=SENTENCES,
    )


def draw(seeds: Sequence[SeedHeads], path: Path) -> None:
    """Plots the share of right answers for each role, and BLEU after heads have been removed."""
    roles = list(zip(*(seed.roles for seed in seeds), strict=True))
    with panels(path, ["strongest weight on the right word", "BLEU without heads"], height=4.8) as (shares, bleu):
        rows, before = range(len(roles))[::-1], [np.mean([role.before.share for role in each]) for each in roles]
        shares.plot(
            [role.share for each in roles for role in each], np.repeat(rows, len(seeds)), "o", label="best head"
        )
        shares.plot([each[0].fixed[1] for each in roles], rows, "k|", markersize=10, label="best fixed distance")
        shares.plot(before, rows, "x", color="grey", label="best head before training")
        shares.set(yticks=rows, yticklabels=[each[0].name for each in roles], xlim=(-0.03, 1.03))
        for style, (part, name) in zip(STYLES, PARTS.items(), strict=False):
            removals = [[seed.removals[0], *seed.quarters[part]] for seed in seeds]
            scores = [[each.bleu or 0.0 for each in of_seed] for of_seed in removals]
            bleu.plot([0, *QUARTERS], np.mean(scores, axis=0), style, label=name)
        bleu.set(xlabel="quarters of the heads, the least useful first", ylim=(0, None), xticks=(0, *QUARTERS))
        for panel in (shares, bleu):
            panel.legend(frameon=False, fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12))


def draw_examples(seeds: Sequence[SeedHeads], path: Path) -> None:
    """Draws the recorded heads of the first seed, with their attention weights as lines between subwords."""
    from matplotlib.figure import Figure

    from transduce.pages.attention_figure import MARGIN, PANEL_GAP, LinePanel
    from transduce.pages.figure_style import save_figure

    roles, drawn = {role.name: role for role in seeds[0].roles}, []
    for picture in seeds[0].pictures:
        role = roles[picture.role]
        part, layer, best = role.best
        layers, heads = np.shape(role.heads[0])
        weights = np.zeros((heads, len(picture.queries), len(picture.keys)), np.float32)
        weights[best] = picture.weights
        colours = tuple(colour if n == best else "#ffffff" for n, colour in enumerate(head_colours(heads)))
        title = f"{PARTS[part].capitalize()}, head {best + 1}"
        text = f"{role.name}, right in {role.share:.0%} of the cases, for example {role.example}"
        attention = AttentionMap(part, title, text, picture.queries, picture.keys, (weights,) * layers, colours)
        drawn.append(LinePanel(attention, layer))
    tops = MARGIN + np.cumsum([0.0, *(panel.height + PANEL_GAP for panel in drawn)])

    def build() -> Figure:
        figure = Figure(figsize=(WIDTH / 72, tops[-1] / 72), facecolor="white")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, WIDTH), ylim=(tops[-1], 0.0), autoscale_on=False)
        axes.set_axis_off()
        for panel, top in zip(drawn, tops, strict=False):
            panel.draw(axes, top, WIDTH)
        return figure

    save_figure(build, "", path, "svg", 72.0)  # the first font has all letters of English and German
