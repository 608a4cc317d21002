"""What heads do: governors, roles and alignments by hand, removed heads, and verdicts that follow from the records."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from paper_fixtures import TRANSFORMER, make_result
from typer.testing import CliRunner

from transduce.commands import app
from transduce.embedded import Example, split
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.paper import attention_heads, experiments, head_roles, trials
from transduce.paper.attention_heads import MEASURE, SeedHeads, decide
from transduce.paper.experiment_scales import ExperimentOptions
from transduce.paper.experiments import EXPERIMENTS
from transduce.paper.head_ablation import ALL, Removal, output_columns, without_heads
from transduce.paper.head_roles import (
    ALIGNED,
    DISTANCES,
    GOVERNOR,
    POSITIONS,
    Head,
    RoleShares,
    alignment_error_rate,
    count_right,
    governors,
    measure_roles,
    words_of_subwords,
)
from transduce.parsing.trees import parse_tree, preterminals
from transduce.run.train import TrainOptions
from transduce.settings import merged
from transduce.translation.results import Explanation

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_governor_of_a_word_is_the_head_of_the_phrase_around_its_own():
    tree = parse_tree(
        "(S (NP (DT The) (NN man)) (VP (VBD did) (RB not) (VP (VB call) (NP (NP (DT the) (NN heirs)) (PP (IN of)"
        " (NP (NN art)))))) (. .))"
    )  # 0 The 1 man 2 did 3 not 4 call 5 the 6 heirs 7 of 8 art 9 .
    assert governors(tree) == {
        0: (1, "DT in NP"),
        1: (2, "NP in S"),
        3: (2, "RB in VP"),
        4: (2, "VP in VP"),
        5: (6, "DT in NP"),
        6: (4, "NP in VP"),
        7: (6, "PP in NP"),
        8: (7, "NP in PP"),
    }


@pytest.mark.parametrize("name", ["test", "novel"])
def test_all_words_but_one_and_punctuation_have_a_governor(name):
    for example in split(name, count=300):
        tree = parse_tree(example.tree)
        words = {number for number, node in enumerate(preterminals(tree)) if node.label[0].isalpha()}
        governed = governors(tree)
        assert len(words - governed.keys()) == 1, example.tree
        assert governed.keys() <= words
        (root,) = words - governed.keys()
        for word in governed:
            steps = 0
            while word != root:
                word, steps = governed[word][0], steps + 1
                assert steps < 100, f"a circle in {example.tree}"


def test_a_subword_belongs_to_the_words_of_its_characters():
    shares = words_of_subwords(("▁I", "▁cannot", "▁sle", "ep", ".", "</s>"), ("I", "can", "not", "sleep", "."))
    expected = np.zeros((6, 6))
    expected[0, 0] = expected[2, 3] = expected[3, 3] = expected[4, 4] = expected[5, 5] = 1
    expected[1, 1:3] = 0.5
    np.testing.assert_allclose(shares, expected)


def test_right_answers_are_counted_by_distance_and_by_head():
    pairs, always_first, right = [(1, 0), (2, 1), (2, 0)], [0, 0, 0], [3, 0, 1]  # 3 is the end symbol
    counts = count_right(pairs, 3, np.array([[always_first, right], [[1, 1, 2], [0, 3, 3]]]))
    cases, chance, *hits = counts.tolist()
    assert (cases, chance) == (2, 3 / 3)
    by_distance = dict(zip(DISTANCES, hits, strict=False))
    assert {step: hit for step, hit in by_distance.items() if hit} == {-2: 1, -1: 2}
    assert hits[len(DISTANCES) :] == [2, 2, 0, 0]


def test_the_distance_of_an_aligned_word_is_from_the_diagonal():
    pairs = [(target, target // 2) for target in range(6)]  # six words, aligned to three
    hits = dict(zip(DISTANCES, count_right(pairs, 3, np.zeros((1, 6), int))[2:], strict=False))
    assert max(hits, key=hits.get) == 0
    assert (hits[-1], hits[0], hits[1]) == (0, 6, 0)


def test_the_alignment_error_rate_counts_links_of_all_sentences():
    first = {(0, 0), (1, 1)}, {(0, 0), (1, 2), (2, 1)}
    second = {(0, 0)}, {(0, 0)}
    assert alignment_error_rate([first, second]) == pytest.approx(1 - 2 * 2 / (2 + 3 + 1 + 1))
    assert alignment_error_rate([second]) == 0


def weights_on(answers, keys):
    """Weights [queries keys] of one head whose strongest weight is on each of `answers`; None is the end symbol."""
    weights = np.full((len(answers), keys), 0.4 / keys, np.float32)
    for row, answer in enumerate(answers):
        weights[row, keys - 1 if answer is None else answer] += 0.6
    return weights


def first_links(example):
    """Returns the first source word of each aligned target word."""
    return {target: source for source, target in reversed(example.alignment)}


class StubTranslator:
    """A model of one layer with three heads in the encoder, one of them uniform, and two in the cross-attention."""

    def __init__(self, examples: list[Example], heads: str) -> None:
        self.examples, self.heads = {example.source: example for example in examples}, heads

    def explain(self, source: str, target: str) -> Explanation:
        example = self.examples[source]
        size, target_size = len(example.source_tokens) + 1, len(example.target_tokens) + 1
        governed = governors(parse_tree(example.tree))
        aligned = first_links(example)
        encoder, cross = np.full((3, size, size), 1 / size), np.full((2, target_size, size), 1 / size)
        if self.heads == "trained":
            encoder[0] = weights_on([max(word - 1, 0) for word in range(size)], size)
            encoder[1] = weights_on([governed.get(word, (None,))[0] for word in range(size)], size)
            cross[0] = 0.5 * (np.eye(1, size) + np.eye(1, size, size - 1))  # weaker than the other head
            cross[1] = weights_on([aligned.get(word) for word in range(target_size)], size)
        subwords = [tuple(f"▁{word}" for word in words) for words in (example.source_tokens, example.target_tokens)]
        decoder = (np.full((1, target_size, target_size), 1 / target_size),)
        texts = example.source, example.target
        return Explanation(*((*each, "</s>") for each in subwords), *texts, (encoder,), decoder, (cross,))


@pytest.fixture
def stub_roles(monkeypatch):
    """Returns the roles and errors of hand-made heads."""
    examples = split("test", count=120)
    translators = iter([StubTranslator(examples, "trained"), StubTranslator(examples, "untrained")])
    monkeypatch.setattr(head_roles, "Translator", SimpleNamespace(of_models=lambda models, *sides: next(translators)))
    spec = Transformer.model_validate(TRANSFORMER)
    module = spec.build(Vocabulary(source=9, target=9))
    config = SimpleNamespace(model=spec, vocabulary=Vocabulary(source=9, target=9))
    roles, errors = measure_roles(SimpleNamespace(config=config, module=module, source=None, target=None), examples, 1)
    return {role.name: role for role in roles}, errors


def test_heads_are_found_by_what_they_attend_to(stub_roles):
    roles, _ = stub_roles
    assert roles["previous word"].best == Head("encoder", 0, 0)
    assert roles["previous word"].share == 1
    relations = [role for role in roles.values() if role.is_relation]
    assert len(relations) > 3
    for role in [roles[GOVERNOR], *relations]:
        assert (role.best, role.share) == (Head("encoder", 0, 1), 1), role.name
    assert (roles[ALIGNED].best, roles[ALIGNED].share) == (Head("cross", 0, 1), 1)
    # A uniform head answers with the first word.
    assert roles["previous word"].heads[1][0][2] < 0.15
    assert roles["same word"].share < 0.15
    assert roles[ALIGNED].heads[1][0][0] < 0.3


def test_a_role_gains_what_its_rivals_do_not_have(stub_roles):
    roles, _ = stub_roles
    for role in roles.values():
        assert role.before.share == role.untrained[1][0][0] == role.untrained[1][0][1]
    objects = roles["NP in VP"]
    assert 0.2 < objects.fixed[1] < 0.7
    assert objects.gain == pytest.approx(1 - max(objects.fixed[1], objects.before.share))
    assert objects.followers == {(0, 1)}
    assert objects.before.followers == set()
    assert roles["previous word"].fixed == [1, 1]
    assert roles["previous word"].gain == pytest.approx(1 - roles["previous word"].before.share)


def test_the_links_of_a_layer_are_the_mean_of_its_heads(stub_roles):
    """The weaker head changes no maximum, so that the links are those of the other head: one for an aligned word."""
    _, (error,) = stub_roles
    examples = split("test", count=120)
    links = [{(source, target) for target, source in first_links(each).items()} for each in examples]
    assert error == pytest.approx(
        alignment_error_rate((link, set(each.alignment)) for link, each in zip(links, examples))
    )
    assert 0 < error < 0.2


def make_role(name="NP in VP", *, heads, fixed=(0.5, 0.5), untrained=0.1, cases=(30, 30)):
    """Returns a role in one layer; `heads` has the shares of each head in both halves."""
    chosen, reported = ([[shares[half] for shares in heads]] for half in (0, 1))
    before = [[untrained] * len(heads)]
    return RoleShares(name, "a → b", cases, 0.1, -2, fixed, (chosen, reported), (before, before))


def test_the_head_is_chosen_on_one_half_and_reported_on_the_other():
    role = make_role(heads=[(0.9, 0.6), (0.8, 0.95), (0.7, 0.4)])
    assert (role.best.number, role.share) == (0, 0.6)
    assert role.by_layer == [0.6]
    assert role.followers == {(0, 0), (0, 1)}  # the third is better in one half
    assert role._replace(name=ALIGNED).best.part == "cross"


def test_verdicts_need_the_whole_interval():
    assert decide([0.3, 0.31, 0.32], 0.0) == "holds"
    assert decide([-0.3, -0.31, -0.32], 0.0) == "fails"
    assert decide([0.3, -0.3, 0.1], 0.0) == "open"
    assert decide([0.3], 0.0) == "one seed"
    assert decide([4.0, 4.0, 4.0], 4.0) == "open"


@pytest.fixture
def model():
    torch.manual_seed(1)
    values = merged(TRANSFORMER, {"encoder_layers": 2, "decoder_layers": 2})
    return Transformer.model_validate(values).build(Vocabulary(source=30, target=30)).eval()


TOKENS = torch.arange(3, 19).reshape(2, 8)


def logits(model):
    with torch.no_grad():
        return model.readout(model(TOKENS, torch.ones_like(TOKENS, dtype=torch.bool), TOKENS.flip(1)).states)


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_a_removed_head_adds_nothing(part, model):
    layer = (model.encoder if part == "encoder" else model.decoder)[1]
    attention = layer.cross if part == "cross" else layer.mixer
    width, whole = attention.spec.d_v, logits(model)

    def silence(module, inputs):
        (attended,) = inputs
        return torch.cat([attended[..., :width], torch.zeros_like(attended[..., width:])], dim=-1)

    handle = attention.output.register_forward_pre_hook(silence)
    expected = logits(model)
    handle.remove()
    with without_heads(model, [Head(part, 1, 1)]):
        torch.testing.assert_close(logits(model), expected)
    with without_heads(model, [Head(part, 1, 0)]):
        assert not torch.allclose(logits(model), expected, atol=1e-3)
    assert not torch.allclose(whole, expected, atol=1e-3)
    assert torch.equal(logits(model), whole)


def test_heads_come_back_after_an_error(model):
    whole, every = logits(model), [Head("encoder", 0, number) for number in (0, 1)]
    removal = without_heads(model, every)
    removal.__enter__()
    assert not output_columns(model)["encoder"][0].any()
    assert not removal.__exit__(KeyError, KeyError(), None)
    assert torch.equal(logits(model), whole)
    assert {part: len(layers) for part, layers in output_columns(model).items()} == {
        "encoder": 2,
        "decoder": 2,
        "cross": 2,
    }


def make_seed(seed, *, relation=0.8, alignment=0.9, number=0):
    """Returns a seed whose best heads have these shares; head `number` of four is best at the relation."""
    heads = [(0.2, 0.2)] * 4
    heads[number] = (relation, relation)
    roles = [
        make_role("previous word", heads=[(0.3, 0.3), (0.9, 0.9), (0.1, 0.1), (0.1, 0.1)], fixed=(1, 1)),
        *(make_role(name, heads=[(0.2, 0.2)] * 4, untrained=0.3) for name in ("same word", "next word", GOVERNOR)),
        make_role(heads=heads),
        make_role(ALIGNED, heads=[(0.1, 0.1), (alignment, alignment)]),
    ]
    removals = [Removal("", [], (1.0, 1.0), 0.9, 40.0)]
    sizes = {"encoder": 4, "decoder": 2, "cross": 2}
    for part, size in sizes.items():
        removals += [Removal(part, [Head(part, 0, each)], (1.1, 1.1), 0.9 - 0.01 * each, None) for each in range(size)]
    for part in (*sizes, ALL):
        removals += [Removal(part, [Head("encoder", 0, 0)] * n, (2.0, 2.0), 0.5, 30.0 - n) for n in (1, 2, 3)]
    pictures = [
        attention_heads.HeadPicture(name, ("A", "b"), ("A", "b"), [[1.0, 0.0], [0.4, 0.6]])
        for name in ("previous word", "NP in VP", ALIGNED)
    ]
    return SeedHeads(make_result(f"demo-{seed}"), roles, [0.25], removals, pictures)


def test_the_verdicts_of_the_page_follow_from_the_records():
    def page(**changes):
        return attention_heads.as_text([make_seed(seed, **changes) for seed in (1, 2, 3)])

    text = page()
    assert '"individual attention heads clearly learn to perform different tasks"' in text
    assert "**Verdict: holds.** 6 of 6 roles hold" not in text
    # The previous word, the relation and alignment hold; one of four heads is not more than a quarter.
    assert "**Verdict: holds.** 3 of 6 roles hold, by 3.00 ± 0.00 different heads." in text
    assert "**Verdict: open.** 1.00 ± 0.00 of 4 heads do; before training 0.00 ± 0.00." in text
    assert (
        "| NP in VP | a → b | 30 | 1.1, 1.1, 1.1 | 80 ± 0% | 50% at -2 | 10 ± 0% | 10% | 0.0 ± 0.0% | holds |" in text
    )
    assert "| previous word | a → b | 30 | 1.2, 1.2, 1.2 | 90 ± 0% |" in text
    assert "| 1.0 ± 0.0% | holds |" in text  # the cost of the second head
    assert "| encoder self-attention | 4 | 1.00 ± 0.00 | 3.0 ± 0.0% |" in text
    assert "| whole model | 0 | 1.00 ± 0.00 | 90.0 ± 0.0% | 40.00 ± 0.00 |" in text
    assert "| all three | 3 | 2.00 ± 0.00 | 50.0 ± 0.0% | 27.00 ± 0.00 |" in text
    assert "2 of 6 roles hold, by 2.00 ± 0.00 different heads" in page(relation=0.4)
    assert "**Verdict: fails.** 0.00 ± 0.00 of 4 heads do" in page(relation=0.4)
    # The same head for both roles of the encoder.
    assert "3 of 6 roles hold, by 2.00 ± 0.00 different heads" in page(number=1)
    mixed = attention_heads.as_text([make_seed(1), make_seed(2, relation=0.4), make_seed(3, relation=0.45)])
    assert (
        "| NP in VP | a → b | 30 | 1.1, 1.1, 1.1 | 55 ± 54% | 50% at -2 | 10 ± 0% | 10% | 0.0 ± 0.0% | open |" in mixed
    )
    assert "**Verdict: one seed.**" in attention_heads.as_text([make_seed(1)])


def test_heads_are_drawn(tmp_path):
    seeds = [make_seed(1), make_seed(2)]
    attention_heads.draw(seeds, tmp_path / "heads.svg")
    attention_heads.draw_examples(seeds, tmp_path / "examples.svg")
    text = (tmp_path / "examples.svg").read_text("utf-8")
    assert "Encoder self-attention, head 2, layer 1 of 1" in text
    assert "Cross-attention, head 2, layer 1 of 1" in text
    assert "NP in VP, right in 80% of the cases, for example a → b" in text


def test_a_run_is_measured_once_and_printed(tmp_path, monkeypatch):
    """The schedule of the demo ends with the run, so that its recipe is none without minutes."""
    demo = attention_heads.read_yaml(Path(attention_heads.transduce.__file__).with_name("demo_translating.yaml"))
    corpora = {"train": [{"embedded": "novel"}], "test": {"test": {"embedded": "test"}}}
    small = {"data": {**demo["data"], **corpora}, "subwords": {"kind": "bpe", "size": 1500}, "model": TRANSFORMER}
    monkeypatch.setattr(attention_heads, "read_yaml", lambda path: {**demo, **small})
    monkeypatch.setattr(attention_heads, "SENTENCES", 28)
    monkeypatch.setattr(head_roles, "FEWEST", 2)
    options = ExperimentOptions("small", (), 1, 0.02, tmp_path / "work", 1, TrainOptions("cpu", 1))
    _, (first,) = attention_heads.run_heads(options)
    monkeypatch.setattr(trials, "run_training", None)
    corpus, (again,) = attention_heads.run_heads(options)
    assert again == first
    assert first.training.trial == "demo-1"
    values = experiments.as_json({"corpus": corpus, "provenance": [*"abcde", 1.0], "results": [first]})
    (tmp_path / "heads.json").write_text(json.dumps(values), "utf-8")
    text = experiments.print_experiment("heads", tmp_path)
    assert "| whole model | 0 | " in text
    assert (tmp_path / "heads-examples.svg").exists()
    (seed,) = experiments.read_results("heads", tmp_path)
    assert {role.name for role in seed.roles} > {*POSITIONS, GOVERNOR, ALIGNED}
    assert len(seed.removals) == 1 + 3 * 2 + 4 * 3
    single = {each.heads[0]: each.losses[0] for each in seed.removals if each.bleu is None}
    least_useful = min((head for head in single if head.part == "cross"), key=single.get)
    # Of two heads, a quarter is none and three quarters are one.
    assert [each.heads for each in seed.quarters["cross"]] == [[], [least_useful], [least_useful]]
    assert seed.quarters["cross"][0].losses == seed.removals[0].losses != seed.quarters["cross"][1].losses


@pytest.mark.parametrize(("arguments", "seeds"), [((), 3), (("--seeds=2",), 2)])
def test_three_seeds_are_trained_unless_the_user_says_otherwise(arguments, seeds, tmp_path, monkeypatch):
    given = []

    def run(options):
        given.append(options.seeds)
        raise ValueError("enough")

    for name in ("heads", "table3"):
        monkeypatch.setitem(EXPERIMENTS, name, EXPERIMENTS[name]._replace(run=run))
        invoke(name, "--run", *arguments, "--work", tmp_path / "work", "--out", tmp_path / "out")
    assert given == [seeds, 2 if arguments else 1]


def invoke(*arguments):
    return CliRunner().invoke(app, ["paper", *map(str, arguments)])


@pytest.mark.parametrize("option", ["--row=demo", "--scale=paper"])
def test_heads_has_neither_rows_nor_scales(option, tmp_path):
    result = invoke("heads", "--run", option, "--out", tmp_path)
    assert result.exit_code == 2
    assert "--row, --scale: heads trains the demo's model alone" in result.stderr


def test_the_stored_page_has_the_heads_of_the_recorded_runs():
    lines = map(json.loads, (RESULTS / "trainings.jsonl").read_text("utf-8").splitlines())
    found = [line["found"] for line in lines if line["folder"] == "heads-small"]
    measured = [{**each["measures"][MEASURE], "training": {**each, "measures": {}}} for each in found]
    stored = json.loads((RESULTS / "heads.json").read_text("utf-8"))["results"]
    assert len(stored) == 3
    assert all(seed in measured for seed in stored)
