"""Rules for predicates: tense, modality, voice and negation, with the adverbials that go with them."""

from functools import cache
from typing import NamedTuple

from transduce.embedded.grammar.adverbials import Scope, adjuncts
from transduce.embedded.grammar.choices import Choice, Each, OneOf, Pick
from transduce.embedded.grammar.pairs import Pairs
from transduce.embedded.lexicon import MODALS
from transduce.embedded.syntax import Adjuncts, Form, Tense


class Latitude(NamedTuple):
    """What a predicate may be, as far as its verb and the place of its clause decide."""

    family: str  # present, past, any or infinitive
    negated: bool
    passive: bool
    progressive: bool
    future: bool
    told_apart: bool  # the past from the present: "they read" could be either
    modals: str  # any, unwilling (all but "want to" and "may", which is allowed there and not possible) or none
    scope: Scope


class Head(NamedTuple):
    """The predicate's form and its adverbials."""

    form: Form
    adjuncts: Adjuncts


@cache
def heads(pairs: Pairs, latitude: Latitude) -> Choice[Head]:
    """A form of the predicate, and adverbials that go with it."""
    if latitude.family == "infinitive":
        infinitive = Pick([Head(Form("infinitive"), Adjuncts())])
        return Pick([]) if latitude.negated or latitude.passive else infinitive
    weighed = simple_forms(latitude) + modal_forms(latitude)
    return OneOf(*((weight, _head(pairs, latitude.scope, form)) for weight, form in weighed))


def _head(pairs: Pairs, scope: Scope, form: Form) -> Choice[Head]:
    frequent = scope.frequent and not form.progressive and not form.modal
    return Each(Head, Pick([form]), adjuncts(pairs, scope._replace(frequent=frequent), time_of(form)))


def simple_forms(latitude: Latitude) -> list[tuple[float, Form]]:
    """The forms without a modal, weighed."""
    weighed: list[tuple[float, Tense, bool]] = []
    if latitude.family != "past":
        weighed += [(4.0, "present", False), (2.5, "perfect", False)]
        weighed += [(1.2, "future", False)] if latitude.future else []
        weighed += [(1.5, "present", True)] if latitude.progressive else []
    if latitude.family != "present":
        weighed += [(6.0, "past", False)] if latitude.told_apart else []
        weighed += [(0.6, "pluperfect", False)]
        weighed += [(1.2, "past", True)] if latitude.progressive else []
    return [
        (weight, Form(tense, latitude.negated, progressive, latitude.passive)) for weight, tense, progressive in weighed
    ]


def modal_forms(latitude: Latitude) -> list[tuple[float, Form]]:
    """The forms with a modal, weighed."""
    polarity = "negative" if latitude.negated else "positive"
    return [
        (0.4, Form(modal.tense, latitude.negated, False, latitude.passive, modal))
        for modal in MODALS
        if latitude.modals != "none"
        and polarity in modal.polarity
        and latitude.family in ("any", modal.tense)
        and (latitude.modals == "any" or modal.english not in ("want to", "may"))
    ]


def time_of(form: Form) -> str:
    """The tense by which adverbials of time are chosen."""
    if form.modal and form.tense == "present":
        return "future"
    return "past" if form.tense == "pluperfect" else form.tense
