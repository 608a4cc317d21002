"""Translators whose weights are replaced, moved or written to after loading, and translators in other processes.

Compiled searches read weights at their addresses. Once multiprocessing had moved a model into shared memory, the same
process translated garbage ("Hut Hut Hut") or crashed, without a message.
"""

import copy
import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from transduce import Translator
from transduce.model_directory.model import Model
from transduce.search.beam import Decoding

LINES = ["cat dog", "the owl saw a mole and an ibis near the lark", "", "pig"]


def linears(model: nn.Module) -> list[nn.Linear]:
    return [part for part in model.modules() if isinstance(part, nn.Linear)]


def replace_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()


def load_assigned(model: nn.Module) -> None:
    model.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()}, assign=True)


def replace_parts(model: nn.Module) -> None:
    for part in model.modules():
        for name, child in part.named_children():
            if isinstance(child, nn.Linear):
                setattr(part, name, copy.deepcopy(child))


def send_in_a_pipe(model: nn.Module) -> None:
    ForkingPickler.dumps(model)


# Changes after which the weights have the same values at other addresses.
MOVES = {
    "share_memory": lambda model: model.share_memory(),
    "multiprocessing": send_in_a_pipe,
    "data": replace_data,
    "assign": load_assigned,
    "to and back": lambda model: model.to(torch.float64).to(torch.float32),
    "apply": lambda model: model._apply(torch.clone),
    "parts": replace_parts,
}


def halve(model: nn.Module) -> None:
    with torch.no_grad():
        for part in linears(model):
            part.weight.mul_(0.5)


def load_in_place(model: nn.Module) -> None:
    model.load_state_dict({name: 0.7 * tensor for name, tensor in model.state_dict().items()})


def prune_linears(model: nn.Module) -> None:
    for part in linears(model):
        prune.l1_unstructured(part, "weight", 0.5)


class Half(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 0.5 * weight


def parametrise(model: nn.Module) -> None:
    for part in linears(model):
        parametrize.register_parametrization(part, "weight", Half())


def quantise_by_torch(model: nn.Module) -> None:
    # On the output projections alone, because attention reads the weights of the others itself.
    torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8, inplace=True)


# Changes after which the model computes something else.
CHANGES = {
    "in place": halve,
    "load_state_dict": load_in_place,
    "pruning": prune_linears,
    "parametrisation": parametrise,
    "other precision": lambda model: model.to(torch.float64),
    "quantising": quantise_by_torch,
}


def uncompiled(translator: Translator) -> Translator:
    """A translator with the same models that searches with torch alone."""
    plain = copy.copy(translator)
    plain.engine = copy.copy(translator.torch_engine)
    plain.engine.current, plain.engine._records = (translator.models[0], False), []
    return plain


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_translator_follows_weights_that_move(fluent, move, precision) -> None:
    translator = Translator.load(fluent, precision=precision)
    expected, scores = translator.translate_records(LINES), translator.score(["owl"], ["lwo"])
    move(translator.models[0])
    # New weights at the old addresses, which a search that still read them would take.
    ballast = [torch.full_like(parameter, 3.0) for parameter in translator.models[0].parameters() for _ in range(3)]
    assert translator.translate_records(LINES) == expected
    assert translator.translate_records(LINES, greedy=True) == Translator.load(
        fluent, precision=precision
    ).translate_records(LINES, greedy=True)
    assert translator.score(["owl"], ["lwo"]) == scores
    del ballast


def add_bias(model: nn.Module) -> None:
    bias = torch.zeros(len(model.readout.weight))
    bias[20:] = -9.0
    model.readout.bias = nn.Parameter(bias)


def hook_networks(model: nn.Module) -> None:
    model.decoder[0].feed_forward.register_forward_hook(lambda module, inputs, output: -output)


CHANGES |= {"added": add_bias, "hooks": hook_networks}


@pytest.mark.filterwarnings("ignore")  # torch calls its quantising deprecated
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_translator_follows_weights_that_change(fluent, change) -> None:
    translator = Translator.load(fluent)
    before, tags = translator.translate_records(LINES), translator.with_source_tags(())
    change(translator.models[0])
    expected = uncompiled(translator).translate_records(LINES)
    after = translator.translate_records(LINES)
    assert [each.tokens for each in after] == [each.tokens for each in expected]
    assert [each.log_probability for each in after] == pytest.approx(
        [each.log_probability for each in expected], rel=1e-4
    )
    assert after != before
    assert tags.translate_records(LINES) == after  # translators with the same models follow them too


def test_unchanged_weights_are_packed_once(fluent) -> None:
    translator = Translator.load(fluent)
    engine = translator.torch_engine
    first, _ = engine.current
    translator.translate_records(LINES)
    assert engine.current[0] is first
    translator.models[0].share_memory()
    translator.translate_records(LINES)
    assert engine.current[0] is not first or first is translator.models[0]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_pickled_translator_loads_its_directories_again(fluent, tmp_path, monkeypatch, precision) -> None:
    translator = Translator.load(fluent, precision=precision)
    translator.decoding = Decoding(beam=2, length_penalty=0.3)
    expected = translator.translate_records(LINES)
    address = next(translator.models[0].parameters()).data_ptr()
    sent = ForkingPickler.dumps(translator)
    assert next(translator.models[0].parameters()).data_ptr() == address
    assert translator.translate_records(LINES) == expected
    monkeypatch.chdir(tmp_path)
    received = pickle.loads(sent)
    assert received.models[0] is not translator.models[0]
    assert received.translate_records(LINES) == expected
    assert copy.copy(translator).models is translator.models


def test_a_pickled_ensemble_and_a_relative_directory(fluent, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(fluent.parent)
    ensemble = Translator.load(fluent.name, fluent)
    expected = ensemble.translate_records(LINES)
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickle.dumps(ensemble)).translate_records(LINES) == expected


def test_a_pickled_translator_of_another_model_is_refused(fluent, monkeypatch) -> None:
    translator = Translator.load(fluent)
    sent = pickle.dumps(translator._origin._replace(fingerprints=("another",)))
    translator._origin = pickle.loads(sent)
    with pytest.raises(ValueError, match="has changed since the translator was loaded"):
        pickle.loads(pickle.dumps(translator))


def test_changed_weights_are_not_sent_and_moved_ones_are(fluent) -> None:
    """Another process would translate with the weights of the directory, without a message."""
    translator = Translator.load(fluent)
    expected = translator.translate_records(LINES)
    translator.models[0].share_memory()
    assert pickle.loads(pickle.dumps(translator)).translate_records(LINES) == expected
    halve(translator.models[0])
    with pytest.raises(ValueError, match="the weights were changed after loading"):
        pickle.dumps(translator)
    copied = copy.deepcopy(translator)
    assert copied.translate_records(LINES) == translator.translate_records(LINES) != expected
    halve(copied.models[0])
    assert copied.translate_records(LINES) != translator.translate_records(LINES)


def test_the_copy_of_a_translator_has_weights_of_its_own_to_check(fluent) -> None:
    """The copy was once taken for unchanged as long as the original was."""
    copied = copy.deepcopy(Translator.load(fluent))
    assert pickle.loads(pickle.dumps(copied)).translate_records(LINES) == copied.translate_records(LINES)
    halve(copied.models[0])
    with pytest.raises(ValueError, match="the weights were changed after loading"):
        pickle.dumps(copied)
    copied.models[0].to(torch.float64)
    with pytest.raises(ValueError, match="the weights were changed after loading"):
        pickle.dumps(copied)


class Loud(Translator):
    def translate(self, text, **options):
        return str(super().translate(text, **options)).upper()


def test_a_pickled_translator_keeps_its_class_and_a_stop_check_is_refused(fluent) -> None:
    loud = Loud.load(fluent)
    assert pickle.loads(pickle.dumps(loud)).translate("cat dog") == loud.translate("cat dog")
    with pytest.raises(TypeError, match="stop check"):
        pickle.dumps(loud.with_stop_check(lambda: None))


def test_a_translator_without_directories_cannot_be_pickled(fluent) -> None:
    model = Model.read(fluent)
    made = Translator.of_models([model.module], model.source, model.target, model.config.decoding)
    with pytest.raises(TypeError, match=r"was not made by `Translator\.load`"):
        pickle.dumps(made)


POOLS = """
import sys
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import torch
from transduce import Translator

if __name__ == "__main__":
    directory, method, precision = sys.argv[1:]
    lines = ["cat dog", "the owl saw a mole and an ibis near the lark", "pig", "owl"] * 5
    torch.set_num_threads(2)
    translator = Translator.load(directory, precision=precision)
    expected = translator.translate(lines)
    torch.rand(1_000_000).exp().sum()  # uses both threads
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(translator.translate, lines) == expected
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        assert list(executor.map(translator.translate, lines, timeout=60)) == expected
    assert translator.translate(lines) == expected
    print("equal")
"""


@pytest.mark.parametrize(
    ("method", "precision"),
    [
        ("fork", "float32"),
        ("fork", "int8"),
        pytest.param("spawn", "float32", marks=pytest.mark.slow),
        pytest.param("forkserver", "int8", marks=pytest.mark.slow),
    ],
)
def test_pools_of_processes_translate_as_the_process_itself(fluent, tmp_path, method, precision) -> None:
    """With two threads before the fork, as on any machine, which do not survive it."""
    program = tmp_path / "pools.py"
    program.write_text(POOLS, "utf-8")
    command = [sys.executable, "-W", "ignore", program, fluent, method, precision]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "equal\n", "")
