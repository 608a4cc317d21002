"""Fine-tuning of a model: what it begins with, what it reports, how it resumes, and growth of its vocabulary."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file

from log_records import logged_lines
from micro_run import write_corpus
from transduce.model_directory.manifest import verify
from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_model
from transduce.run.fine_tuning import FineTuning, grown_weights, load_training_recipe
from transduce.run.publishing import TrainedLanguages
from transduce.run.train import TrainOptions, run_training, train
from transduce.search.greedy_and_sampling import greedy_search
from transduce.search.stepper import SearchProblem
from transduce.text.subword_training import WordPiece
from transduce.text.subwords import Subwords
from transduce.text.vocabulary_growth import grow_subwords, spellings

DOMAIN = """
data:
  train: {source: train.en, target: train.de}
  test: {domain: {source: test.en, target: test.de}}
training: {epochs: 2, save_every: 2, log_every: 1}
"""
ADDED = 30


@pytest.fixture(scope="module")
def domain(tmp_path_factory):
    """A folder with the text of a domain, whose words are not those of the micro run, and `domain.yaml`."""
    folder = tmp_path_factory.mktemp("domain")
    write_corpus(folder, "train", 120)
    write_corpus(folder, "test", 6)
    for path in folder.glob("*.*"):
        path.write_text(path.read_text().replace("ant", "axolotl").replace("tna", "ltoloxa"))
    (folder / "domain.yaml").write_text(DOMAIN)
    return folder


def recipe_for(domain, out, *changes, start_from=None):
    path = domain / "domain.yaml"
    return load_training_recipe(path, changes, out, start_from=start_from, restart=False)


def tune(domain, out, start_from=None, *changes, **options):
    """Trains the domain's recipe as the command does."""
    recipe = recipe_for(domain, out, *changes, start_from=start_from)
    return run_training(recipe, out, TrainOptions("cpu", 1, start_from=start_from, **options))


@pytest.fixture(scope="module")
def tuned(trained, domain, tmp_path_factory):
    """A fine-tuned run with a grown vocabulary, never stopped, and its console in `tuned.log` beside it."""
    out = tmp_path_factory.mktemp("tuned") / "run"
    with logged_lines() as lines:
        tune(domain, out, trained, grow_vocabulary=ADDED)
    (out.parent / "tuned.log").write_text("\n".join(lines))
    return out


def log_of(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_both_test_sets_are_reported_before_and_after(fluent, domain, micro, tmp_path, command):
    out = tmp_path / "run"
    spare = f"data.test.spare={{source: {micro / 'test.en'}, target: {micro / 'test.de'}}}"
    code, printed, error = command("train", domain / "domain.yaml", "--out", out, "--from", fluent, "--set", spare)
    assert (code, printed.startswith(f"{out}: 2 epochs are done, after ")) == (0, True), error
    table = error[error.index("test set") :].splitlines()
    assert table[0].split() == ["test", "set", "BLEU", "before", "BLEU", "after"]
    assert [row.split()[0] for row in table[1:3]] == ["domain", "spare"]
    for name, row in zip(("domain", "spare"), table[1:], strict=False):
        for run, column in ((fluent, 0), (out, 1)):
            text = recipe_for(domain, out, spare).data.test[name]
            options = ("--source", text.source, "--reference", text.target, "--metric", "bleu", "--bootstrap", "1000")
            score = json.loads(command("evaluate", run, *options, "--json")[1])["bleu"]
            cell = f"{score['score']:.2f} [{score['low']:.2f}, {score['high']:.2f}]"
            assert row.split(maxsplit=1)[1].split("]")[column].strip() + "]" == cell
            logged = next(record for record in log_of(out) if record.get("test") == name)
            assert logged[("before", "after")[column]]["bleu"] == score["score"]
            assert f"`{score['signature']}`" in (out / "README.md").read_text()
            assert cell in (out / "README.md").read_text()
    assert float(table[2].split()[1]) > 5  # so that zeros are not compared
    assert verify(out) == []


def test_a_finished_run_says_its_table_again_without_measuring(tuned, domain, monkeypatch, log_lines):
    monkeypatch.setattr("transduce.run.fine_tuning.score_test", None)
    log = log_of(tuned)
    tune(domain, tuned)
    assert any(line.startswith("test set ") for line in log_lines)
    assert log_of(tuned) == log


def test_a_card_that_was_edited_stays(trained, domain, tmp_path):
    out = tmp_path / "run"
    tune(domain, out, trained, "training.steps=1")
    card = (out / "README.md").read_text()
    assert card.count("## Before and after fine-tuning") == 1
    (out / "README.md").write_text("mine")
    tune(domain, out, None, "training.steps=2")
    assert (out / "README.md").read_text() == "mine"


def test_without_report_nothing_is_measured(trained, domain, tmp_path, monkeypatch, command):
    monkeypatch.setattr("transduce.run.fine_tuning.score_test", None)
    code, _, error = command(
        "train", domain / "domain.yaml", "--out", tmp_path, "--from", trained, "--no-report", "--set=training.steps=1"
    )
    assert (code, "test set" in error) == (0, False)
    assert not any("test" in record for record in log_of(tmp_path))


def test_a_test_set_that_is_gone_is_a_note(trained, domain, tmp_path, log_lines):
    gone = "data.test={gone: {source: gone.en, target: gone.de}}"
    tune(domain, tmp_path / "run", trained, gone, "training.steps=1")
    assert any(
        line.startswith("note: test set gone is left out: ") and "gone.en: no such file" in line for line in log_lines
    )
    assert any(line.split() == ["gone", "not", "measured", "not", "measured"] for line in log_lines)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("model.d_model=20", "`model.d_model` is 24 in the model and 20 in the recipe"),
        ("subwords.size=400", "`subwords.size` is 320 in the model and 400 in the recipe"),
        ("data.target_language=fr", "`data.target_language` is de in the model and fr in the recipe"),
        ("data.train={trees: nowhere}", "`data.train` has trees, and the model of --from translates"),
    ],
)
def test_what_does_not_fit_is_said_before_a_corpus_is_read(trained, domain, tmp_path, change, fault, command):
    changes = ["--set", "data.train={source: nowhere.en, target: nowhere.de}", "--set", change]
    code, _, error = command("train", domain / "domain.yaml", "--out", tmp_path / "run", "--from", trained, *changes)
    assert code == 2
    assert fault in error
    assert not (tmp_path / "run").exists()


def test_an_interrupted_fine_tuning_ends_with_the_same_bits(trained, tuned, domain, tmp_path, log_lines):
    """Stopped after a checkpoint, resumed when the model that it began with is gone."""
    base, out = shutil.copytree(trained, tmp_path / "base"), tmp_path / "run"
    recipe = recipe_for(domain, out, start_from=base)
    steps = train(recipe, out, device="cpu", threads=1, start_from=base, grow_vocabulary=ADDED)
    assert [next(steps).step for _ in range(3)] == [1, 2, 3]
    steps.close()
    shutil.rmtree(base)
    log_lines.clear()
    tune(domain, out, base)  # the same command, without the model that it names
    assert "--from is ignored: this training has begun and goes on with its own weights" in log_lines
    assert "going on after step 2" in log_lines
    assert any(line.startswith("test set ") for line in log_lines)
    whole, resumed = (load_file(run / "model.safetensors") for run in (tuned, out))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert (out / "tokenizer.json").read_bytes() == (tuned / "tokenizer.json").read_bytes()


def test_a_fine_tuning_without_a_checkpoint_begins_with_its_model_again(trained, domain, tmp_path):
    recipe = recipe_for(domain, tmp_path, "training.epochs=1", start_from=trained)
    steps = train(recipe, tmp_path, device="cpu", threads=1, start_from=trained, report=False)
    next(steps)
    steps.close()
    assert not any((tmp_path / "training").glob("step-*"))
    tune(domain, tmp_path, None, "training.epochs=1")  # with no --from
    assert FineTuning.read(tmp_path).start.directory == str(trained.resolve())
    tokenizers = [(run / "tokenizer.json").read_bytes() for run in (tmp_path, trained)]
    assert tokenizers[0] == tokenizers[1]


def test_a_fine_tuning_that_published_before_its_first_checkpoint_begins_with_its_model_again(
    trained, domain, fluent, tmp_path
):
    changes = ["training.epochs=1", "training.save_every=100", "training.validate_every=1"]
    changes += [f"data.validation={{source: {domain}/test.en, target: {domain}/test.de}}"]
    recipe = recipe_for(domain, tmp_path, *changes, start_from=trained)
    steps = train(recipe, tmp_path, device="cpu", threads=1, start_from=trained, report=False)
    next(steps), next(steps)
    steps.close()
    assert (tmp_path / "model.safetensors").exists()
    assert not any((tmp_path / "training").glob("step-*"))
    with pytest.raises(ValueError, match=r"is not the model with which .* was begun"):
        tune(domain, tmp_path, fluent, *changes)
    tune(domain, tmp_path, None, *changes)
    tokenizers = [(run / "tokenizer.json").read_bytes() for run in (tmp_path, trained)]
    assert tokenizers[0] == tokenizers[1]


def test_a_deleted_token_store_is_made_again_with_the_subwords_of_the_first_model(tuned, domain, tmp_path, log_lines):
    run = shutil.copytree(tuned, tmp_path / "run")
    shutil.rmtree(run / "training" / "store")
    tune(domain, run)
    assert any("is finished" in line for line in log_lines)


def test_a_damaged_token_store_is_made_again_with_the_subwords_of_the_first_model(tuned, domain, tmp_path, log_lines):
    run = shutil.copytree(tuned, tmp_path / "run")
    description = run / "training" / "store" / "store.json"
    description.write_text(description.read_text()[:-9])
    tune(domain, run)
    assert any("is finished" in line for line in log_lines)


def test_damaged_tokens_are_made_again_and_the_vocabulary_does_not_grow_again(tuned, domain, tmp_path, log_lines):
    run = shutil.copytree(tuned, tmp_path / "run")
    store = run / "training" / "store"
    tokens, subwords = (store / "source.ids").read_bytes(), (store / "tokenizer.json").read_bytes()
    (store / "source.ids").write_bytes(tokens[:-2])
    tune(domain, run)
    assert any("is finished" in line for line in log_lines)
    assert (store / "source.ids").read_bytes() == tokens
    assert (store / "tokenizer.json").read_bytes() == subwords


def test_damaged_subwords_of_a_token_store_are_named(tuned, domain, tmp_path):
    run = shutil.copytree(tuned, tmp_path / "run")
    (run / "training" / "store" / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"the store in .* cannot be used: .*tokenizer.json"):
        tune(domain, run)


def test_a_restart_does_not_move_the_model_of_its_beginning(trained, domain, tmp_path, command):
    code, _, error = command("train", domain / "domain.yaml", "--out", trained, "--from", trained, "--restart")
    assert (code, "train into another directory" in error) == (2, True)


def test_a_resumed_fine_tuning_has_the_same_recipe_and_growth(trained, tuned, domain, log_lines):
    with pytest.raises(ValueError, match=r"begun with another recipe: `training.seed` was 1 and is 2"):
        tune(domain, tuned, trained, "training.seed=2")
    with pytest.raises(ValueError, match=rf"--grow-vocabulary 7: .* was begun with {ADDED}; leave it out"):
        tune(domain, tuned, trained, grow_vocabulary=7)
    log_lines.clear()
    tune(domain, tuned, trained, grow_vocabulary=ADDED)
    assert any("is finished" in line for line in log_lines)


def test_a_damaged_record_is_named(tuned, domain, tmp_path):
    run = shutil.copytree(tuned, tmp_path / "run")
    (run / "training" / "fine_tuning.json").write_text('{"version": 1}')
    with pytest.raises(ValueError, match=r"fine_tuning.json: `start` is missing(?s:.*)\nTake that file from a backup"):
        tune(domain, run)
    (run / "training" / "fine_tuning.json").write_text("{")
    with pytest.raises(ValueError, match=r"fine_tuning.json is not JSON"):
        tune(domain, run)


def test_a_restart_names_the_model_of_the_beginning_again(trained, domain, tmp_path, command):
    run = tmp_path / "run"
    tune(domain, run, trained, "training.steps=1", report=False)
    again = ["train", domain / "domain.yaml", "--out", run, "--restart", "--no-report", "--set=training.steps=1"]
    code, _, error = command(*again)
    assert (code, f"--restart: {run} began with another model: name the model again with --from" in error) == (2, True)
    assert not (run / "before-restart-1").exists()
    code, _, error = command(*again, "--from", trained)
    assert code == 0, error
    assert FineTuning.read(run) is not None
    assert FineTuning.read(run / "before-restart-1") is not None


def test_a_run_without_its_training_folder_cannot_go_on(tuned, trained, domain, tmp_path, command):
    run = shutil.copytree(tuned, tmp_path / "run")
    shutil.rmtree(run / "training")
    for options in ([], ["--from", trained]):
        code, _, error = command("train", domain / "domain.yaml", "--out", run, *options)
        assert (code, f"{run} holds a model whose `training` folder is gone" in error) == (2, True)


def test_a_tag_that_the_model_does_not_have_is_named_before_a_corpus_is_read(trained, domain, tmp_path):
    corpus = "data.train={source: nowhere.en, target: nowhere.de, tag: law}"
    with pytest.raises(ValueError, match="no tag tag:law, its tags: none"):
        tune(domain, tmp_path / "run", trained, corpus, "data.test={}")
    assert not (tmp_path / "run").exists()


def test_texts_without_a_tag_stay_beside_those_of_the_model_with_one(trained):
    config = Model.read_config(trained)
    tagged, plain = config.model_copy(update={"tags": ("wsj",)}), TrainedLanguages("en", "de", (), ())
    assert plain.inherit(tagged).tags == (None, "wsj")
    assert plain._replace(tags=("law",)).inherit(config).tags == ("law", None)
    assert plain.inherit(config).tags == ()


def test_the_whole_recipe_of_a_fine_tuning_resumes_it(tuned, tmp_path, command):
    run = shutil.copytree(tuned, tmp_path / "run")
    code, printed, error = command("train", tuned / "recipe.yaml", "--out", run)
    assert (code, printed.startswith(f"{run}: 2 epochs are done")) == (0, True), error


def test_a_grown_model_is_a_whole_model(trained, tuned, command):
    before, after = Model.read(trained), Model.read(tuned)
    assert after.config.vocabulary.source == before.config.vocabulary.source + ADDED == after.source.size
    assert verify(tuned) == []
    log = (tuned.parent / "tuned.log").read_text()
    assert log.count("vocabulary grown") == 1
    assert re.search(rf"^vocabulary grown from 320 to {320 + ADDED} subwords: source \d+.\d\d → .*, target ", log, re.M)
    code, _, error = command("translate", tuned, tuned.parent / "tuned.log")
    assert code == 0, error


def grown_model(base, lines, count=ADDED):
    """Returns a model with a grown vocabulary before any training, and its subwords."""
    subwords = grow_subwords(base.source, lines, count)
    weights = grown_weights(base, subwords, subwords)
    sizes = base.config.vocabulary.model_copy(update={"source": subwords.size, "target": subwords.size})
    module = base.config.model.build(sizes).eval()
    for name, parameter in module.named_parameters():
        parameter.data = weights[name].clone()
    return module, subwords


@pytest.fixture(scope="module")
def pair(fluent, domain):
    """A model, the same with a grown vocabulary, the grown subwords, and the size of the old ones."""
    base = Model.read(fluent)
    module, subwords = grown_model(base, (domain / "train.en").read_text().splitlines())
    return base, module, subwords, base.source.size


def test_new_rows_are_the_means_of_the_subwords_that_they_replace(pair):
    base, module, subwords, size = pair
    old, new = dict(base.module.named_parameters()), dict(module.named_parameters())
    (table,) = [name for name in old if old[name].shape != new[name].shape]
    assert torch.equal(new[table][:size], old[table])
    for row, tokens in zip(new[table][size:], spellings(subwords, size), strict=True):
        assert torch.allclose(row, sum(old[table][token] for token in tokens) / len(tokens), atol=1e-7)


@torch.inference_mode()
def test_a_grown_model_is_the_old_one_given_the_old_subwords(pair, micro):
    """The same states; of the old subwords the same log-probabilities, once those of new ones are taken out."""
    base, module, _, size = pair
    begin, end = base.config.model.symbols.begin, base.config.model.symbols.end
    for source, target in list(zip(*((micro / f"test.{code}").read_text().splitlines() for code in ("en", "de"))))[:3]:
        (given,), (written,) = base.source.encode([source]), base.target.encode([target])
        arguments = (
            torch.tensor([[*given, end]]),
            torch.ones(1, len(given) + 1, dtype=bool),
            torch.tensor([[begin, *written]]),
        )
        before, after = (model(*arguments).states for model in (base.module, module))
        assert torch.equal(before, after)
        old, new = base.module.double().readout(before.double()), module.double().readout(after.double())
        base.module.float(), module.float()
        assert new.shape[-1] > size
        assert torch.allclose(new[..., :size].log_softmax(-1), old, atol=1e-6, rtol=0)
        # A mean of logits is no more than the largest of them, so that greedy search writes no new subword.
        assert (new[..., size:].max(-1).values <= new[..., :size].max(-1).values + 1e-9).all()


def test_greedy_translations_of_old_text_stay(pair, micro):
    base, module, subwords, _ = pair
    symbols = base.config.model.symbols
    lines = (micro / "test.en").read_text().splitlines() + (micro / "validation.en").read_text().splitlines()
    same = [line for line in lines if subwords.encode([line]) == base.source.encode([line])]
    assert same
    for line in same:
        source = torch.tensor([[*base.source.encode([line])[0], symbols.end]])
        visible, bounds = torch.ones_like(source, dtype=torch.bool), torch.tensor([30])
        problem = SearchProblem(source, visible, bounds, symbols.begin, symbols.end, (symbols.pad, symbols.begin))
        with torch.inference_mode():
            before, after = (greedy_search(model, problem) for model in (base.module, module))
        assert before[0].tokens == after[0].tokens


def test_growth_of_two_vocabularies_leaves_the_other_side_alone(fluent, domain):
    """Separate embeddings and a separate readout: tables of the source have the source's new rows alone."""
    base = Model.read(fluent)
    spec = base.config.model.model_copy(update={"embeddings": "separate"})
    module = spec.build(base.config.vocabulary)
    other = Model(base.config.model_copy(update={"model": spec}), module, base.source, base.target)
    lines = (domain / "train.en").read_text().splitlines()
    source, target = grow_subwords(base.source, lines, 5), grow_subwords(base.target, lines, 3)
    grown, size = grown_weights(other, source, target), base.source.size
    sizes = {name: len(grown[name]) - len(weight) for name, weight in weights_of(module).items()}
    assert {name: gain for name, gain in sizes.items() if gain} == {
        "source_embedding.weight": 5,
        "target_embedding.weight": 3,
    }
    assert len(grown["source_embedding.weight"]) == size + 5


def test_wordpiece_does_not_grow(trained, domain, tmp_path):
    model = Model.read(trained)
    subwords = Subwords.learn(["ant bee cat"] * 3, WordPiece(size=520))
    sizes = {"source": subwords.size, "target": subwords.size}
    config = model.config.model_copy(update={"vocabulary": model.config.vocabulary.model_copy(update=sizes)})
    module = config.model.build(config.vocabulary)
    write_model(tmp_path / "base", config, weights_of(module), (subwords, subwords), {})
    (tmp_path / "broken.en").write_bytes(b"\x1f\x8b no gzip")
    changes = [f"data.train={{tsv: {tmp_path / 'broken.en'}}}"]
    with pytest.raises(ValueError, match="--grow-vocabulary: the source subwords of --from are no BPE over bytes"):
        tune(domain, tmp_path / "run", tmp_path / "base", *changes, grow_vocabulary=5)


def test_growth_needs_another_model(domain, micro, tmp_path, command):
    options = ("--grow-vocabulary", 5, "--out", tmp_path / "run")
    code, _, error = command("train", micro / "recipe.yaml", *options)
    assert (code, "--grow-vocabulary adds to the vocabulary of another model" in error) == (2, True)
