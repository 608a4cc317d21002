"""Rules for predicates: tense, modality, voice and negation, with the adverbials that go with them."""

from functools import cache
from typing import NamedTuple

from transduce.embedded.grammar.adverbials import AdverbialSlots, adjuncts
from transduce.embedded.grammar.choices import Choice, Combine, OneOf, Pick
from transduce.embedded.grammar.held_out_pairs import Pairs
from transduce.embedded.lexicon import MODALS
from transduce.embedded.syntax import Adjuncts, Tense, VerbForm


class PredicateOptions(NamedTuple):
    """The forms that a predicate may have, as its verb and its clause decide."""

    time_frame: str  # present, past, any or infinitive
    negated: bool
    passive: bool
    progressive: bool
    future: bool
    distinct_past: bool  # False for verbs whose past may look like their present: "they read"
    modals: str  # none, any, or without_volition: all but "want to" and "may", which here means permission
    adverbials: AdverbialSlots


class Predicate(NamedTuple):
    """The form of the predicate and its adverbials."""

    form: VerbForm
    adjuncts: Adjuncts


@cache
def predicates(pairs: Pairs, options: PredicateOptions) -> Choice[Predicate]:
    """Returns the forms of the predicate, with the adverbials that go with them."""
    if options.time_frame == "infinitive":
        infinitive = Pick([Predicate(VerbForm("infinitive"), Adjuncts())])
        return Pick([]) if options.negated or options.passive else infinitive
    weighted = simple_forms(options) + modal_forms(options)
    return OneOf(*((weight, _predicate(pairs, options.adverbials, form)) for weight, form in weighted))


def _predicate(pairs: Pairs, slots: AdverbialSlots, form: VerbForm) -> Choice[Predicate]:
    frequency = slots.frequency and not form.progressive and not form.modal
    adverbials = adjuncts(pairs, slots._replace(frequency=frequency), adverbial_tense(form))
    return Combine(Predicate, Pick([form]), adverbials)


def simple_forms(options: PredicateOptions) -> list[tuple[float, VerbForm]]:
    """Returns the forms without a modal, with their weights."""
    weighted: list[tuple[float, Tense, bool]] = []
    if options.time_frame != "past":
        weighted += [(4.0, "present", False), (2.5, "perfect", False)]
        weighted += [(1.2, "future", False)] if options.future else []
        weighted += [(1.5, "present", True)] if options.progressive else []
    if options.time_frame != "present":
        weighted += [(6.0, "past", False)] if options.distinct_past else []
        weighted += [(0.6, "pluperfect", False)]
        weighted += [(1.2, "past", True)] if options.progressive else []
    return [
        (weight, VerbForm(tense, options.negated, progressive, options.passive))
        for weight, tense, progressive in weighted
    ]


def modal_forms(options: PredicateOptions) -> list[tuple[float, VerbForm]]:
    """Returns the forms with a modal, with their weights."""
    polarity = "negative" if options.negated else "positive"
    return [
        (0.4, VerbForm(modal.tense, options.negated, False, options.passive, modal))
        for modal in MODALS
        if options.modals != "none"
        and polarity in modal.polarity
        and options.time_frame in ("any", modal.tense)
        and (options.modals == "any" or modal.english not in ("want to", "may"))
    ]


def adverbial_tense(form: VerbForm) -> str:
    """Returns the tense that selects the adverbials."""
    if form.modal and form.tense == "present":
        return "future"
    return "past" if form.tense == "pluperfect" else form.tense
