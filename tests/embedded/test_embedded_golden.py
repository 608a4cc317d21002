"""Each construction, built by hand, against its English and German sentence."""

from typing import Any

import pytest

from transduce.embedded.grammar import WHEN, WHERE, WHITHER
from transduce.embedded.lexicon import (
    ADJECTIVES,
    ADVERBS,
    ATTRIBUTES,
    DETERMINERS,
    MODALS,
    NAMES,
    NOUNS,
    NUMERALS,
    PRONOUNS,
    TIMES,
    VERBS,
    find_entry,
)
from transduce.embedded.realise import realise_english, realise_pair
from transduce.embedded.syntax import (
    AdjectivePhrase,
    Adjuncts,
    Clause,
    ClockTime,
    Coordination,
    EventTime,
    Expletive,
    Gap,
    InterrogativePronoun,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    PrepositionalModifier,
    Pronoun,
    Sentence,
    SubordinateClause,
    TimeExpression,
    VerbForm,
)

PRESENT, PAST, PERFECT = VerbForm("present"), VerbForm("past"), VerbForm("perfect")


def noun(words: str, adjective: str = "", modifier: Any = None, numeral: str = "") -> NounPhrase:
    """A noun phrase from "the teacher" or "- teachers"; a dash is not an article."""
    article, word = words.split()
    plural = [entry for entry in NOUNS if entry.english_plural == word]
    entry = plural[0] if plural else find_entry(NOUNS, word)
    return NounPhrase(
        entry,
        None if article == "-" else find_entry(DETERMINERS, article),
        "plural" if plural else "singular",
        find_entry(NUMERALS, numeral) if numeral else None,
        AdjectivePhrase(find_entry(ADJECTIVES, adjective), False) if adjective else None,
        modifier,
    )


def pronoun(english: str) -> Pronoun:
    return Pronoun(find_entry(PRONOUNS, english))


def name(english: str) -> NamePhrase:
    return NamePhrase(find_entry(NAMES, english))


def clause(subject: Phrase, german: str, form: VerbForm = PRESENT, *objects: Phrase, **more: Any) -> Clause:
    """A clause around the verb with this German infinitive, its objects in the order of its slots."""
    complement, agent = more.pop("complement", None), more.pop("agent", None)
    verb = next(
        entry
        for entry in VERBS
        if entry.prefix + entry.german == german
        and (form.passive or len(entry.slots) == len(objects))
        and ("question" in more or bool(entry.complement) == (complement is not None))
    )
    return Clause(verb, form, subject, objects, Adjuncts(**more), complement, agent)


def at(word: str, adjective: str = "") -> Place:
    phrase = noun(word, adjective)
    assert phrase.noun.at
    return Place(phrase, *phrase.noun.at)


def to(word: str) -> Place:
    phrase = noun(word)
    assert phrase.noun.to
    return Place(phrase, "to", *phrase.noun.to)


def on(english: str) -> TimeExpression:
    """The set phrase of time that has this word."""
    return TimeExpression(next(entry for entry in TIMES if f" {english})" in entry.english))


def often(english: str) -> Any:
    return find_entry(ADVERBS, english)


def modal(english: str, tense: str, polarity: str = "positive") -> VerbForm:
    entry = next(m for m in MODALS if m.english == english and m.tense == tense and polarity in m.polarity)
    return VerbForm(entry.tense, negated=polarity == "negative", modal=entry)


def both_lines(sentence: Sentence | Clause, question: bool = False) -> tuple[str, str]:
    """The two lines of a sentence, or of one clause."""
    if not isinstance(sentence, Sentence):
        sentence = Sentence("question" if question else "statement", sentence)
    example = realise_pair(sentence, realise_english(sentence))
    return example.source, example.target


STATEMENTS: list[tuple[Clause | Sentence, str, str]] = [
    (
        clause(noun("the teacher", "old"), "lesen", PRESENT, noun("a book", "new")),
        "The old teacher reads a new book.",
        "Der alte Lehrer liest ein neues Buch.",
    ),
    (
        clause(pronoun("she"), "lesen", PERFECT, noun("the letter"), time=on("today"), front="time"),
        "Today, she has read the letter.",
        "Heute hat sie den Brief gelesen.",
    ),
    (
        clause(noun("the boy"), "schlafen", PAST, place=at("the kitchen"), front="place"),
        "In the kitchen, the boy slept.",
        "In der Küche schlief der Junge.",
    ),
    (
        clause(pronoun("I"), "ankommen", PERFECT, time=on("today")),
        "I have arrived today.",
        "Ich bin heute angekommen.",
    ),
    (
        clause(pronoun("he"), "freuen", VerbForm("perfect"), noun("the party")),
        "He has looked forward to the party.",
        "Er hat sich auf das Fest gefreut.",
    ),
    (
        clause(pronoun("we"), "erinnern", PAST, noun("our aunt")),
        "We remembered our aunt.",
        "Wir erinnerten uns an unsere Tante.",
    ),
    (
        clause(noun("the doctor"), "ausruhen", PAST, time=on("yesterday"), front="time"),
        "Yesterday, the doctor rested.",
        "Gestern ruhte sich der Arzt aus.",
    ),
    (
        clause(pronoun("they"), "lesen", VerbForm("present", negated=True), noun("the book")),
        "They do not read the book.",
        "Sie lesen das Buch nicht.",
    ),
    (
        clause(pronoun("they"), "lesen", VerbForm("past", negated=True), noun("a book", "boring")),
        "They did not read a boring book.",
        "Sie lasen kein langweiliges Buch.",
    ),
    (
        clause(noun("the cat"), "essen", VerbForm("present", negated=True), noun("- apples")),
        "The cat does not eat apples.",
        "Die Katze isst keine Äpfel.",
    ),
    (
        clause(noun("the man"), "warten", VerbForm("perfect", negated=True), noun("a train")),
        "The man has not waited for a train.",
        "Der Mann hat nicht auf einen Zug gewartet.",
    ),
    (
        clause(pronoun("she"), "kaufen", PERFECT, noun("the car"), frequency=often("never")),
        "She has never bought the car.",
        "Sie hat das Auto nie gekauft.",
    ),
    (
        clause(pronoun("she"), "kaufen", PRESENT, noun("- bread"), frequency=often("often")),
        "She often buys bread.",
        "Sie kauft oft Brot.",
    ),
    (
        clause(noun("the child"), "anrufen", modal("must", "present"), noun("the grandmother")),
        "The child must call the grandmother.",
        "Das Kind muss die Großmutter anrufen.",
    ),
    (
        clause(pronoun("you"), "öffnen", modal("must", "present", "negative"), noun("this door")),
        "You must not open this door.",
        "Sie dürfen diese Tür nicht öffnen.",
    ),
    (
        clause(pronoun("he"), "arbeiten", modal("have to", "present", "negative")),
        "He does not have to work.",
        "Er muss nicht arbeiten.",
    ),
    (
        clause(pronoun("he"), "singen", modal("can", "present", "negative"), noun("the song")),
        "He cannot sing the song.",
        "Er kann das Lied nicht singen.",
    ),
    (
        clause(pronoun("I"), "besuchen", modal("want to", "past"), name("Anna")),
        "I wanted to visit Anna.",
        "Ich wollte Anna besuchen.",
    ),
    (
        clause(pronoun("she"), "ausschalten", PAST, noun("the lamp")),
        "She turned off the lamp.",
        "Sie schaltete die Lampe aus.",
    ),
    (
        clause(name("Paul"), "abholen", VerbForm("present", progressive=True), pronoun("they")),
        "Paul is picking them up.",
        "Paul holt sie ab.",
    ),
    (
        clause(noun("the mother"), "geben", PAST, pronoun("he"), noun("a apple")),
        "The mother gave him an apple.",
        "Die Mutter gab ihm einen Apfel.",
    ),
    (
        clause(noun("the mother"), "erklären", PRESENT, noun("the child"), noun("the rule")),
        "The mother explains the rule to the child.",
        "Die Mutter erklärt dem Kind die Regel.",
    ),
    (
        clause(pronoun("we"), "helfen", PERFECT, noun("the neighbour")),
        "We have helped the neighbour.",
        "Wir haben dem Nachbarn geholfen.",
    ),
    (
        clause(noun("the house"), "bauen", VerbForm("past", passive=True), agent=noun("my uncle")),
        "The house was built by my uncle.",
        "Das Haus wurde von meinem Onkel gebaut.",
    ),
    (
        clause(noun("the letters"), "schreiben", VerbForm("perfect", passive=True), time=on("today")),
        "The letters have been written today.",
        "Die Briefe sind heute geschrieben worden.",
    ),
    (
        clause(noun("the kitchen"), "putzen", modal("have to", "past")._replace(passive=True)),
        "The kitchen had to be cleaned.",
        "Die Küche musste geputzt werden.",
    ),
    (
        clause(pronoun("I"), "aufstehen", PRESENT, time=ClockTime(find_entry(NUMERALS, "seven"), "half")),
        "I get up at half past seven.",
        "Ich stehe um halb acht auf.",
    ),
    (
        clause(pronoun("I"), "aufwachen", PAST, time=ClockTime(find_entry(NUMERALS, "twelve"), "half")),
        "I woke up at half past twelve.",
        "Ich wachte um halb eins auf.",
    ),
    (
        clause(noun("the concert"), "anfangen", PRESENT, time=ClockTime(find_entry(NUMERALS, "three"), "past")),
        "The concert begins at quarter past three.",
        "Das Konzert fängt um Viertel nach drei an.",
    ),
    (
        clause(noun("the concert"), "enden", PAST, time=ClockTime(find_entry(NUMERALS, "one"), "full")),
        "The concert ended at one o'clock.",
        "Das Konzert endete um ein Uhr.",
    ),
    (
        clause(
            noun("the guests"), "tanzen", PAST, time=EventTime("during", "während", "genitive", noun("the wedding"))
        ),
        "The guests danced during the wedding.",
        "Die Gäste tanzten während der Hochzeit.",
    ),
    (
        clause(noun("- teachers", numeral="three"), "fahren", PERFECT, complement=to("the station")),
        "Three teachers have driven to the station.",
        "Drei Lehrer sind zum Bahnhof gefahren.",
    ),
    (
        clause(name("Maria"), "reisen", VerbForm("future"), complement=Place(name("Vienna"), "to", "nach", "dative")),
        "Maria will travel to Vienna.",
        "Maria wird nach Wien reisen.",
    ),
    (
        clause(pronoun("they"), "wohnen", PRESENT, complement=at("a village", "small")),
        "They live in a small village.",
        "Sie wohnen in einem kleinen Dorf.",
    ),
    (
        clause(noun("the soup"), "sein", PAST, complement=AdjectivePhrase(find_entry(ADJECTIVES, "warm"), True)),
        "The soup was very warm.",
        "Die Suppe war sehr warm.",
    ),
    (
        clause(noun("the friend", modifier=Possessor(noun("the teacher"), False)), "lachen", PAST, noun("the joke")),
        "The friend of the teacher laughed about the joke.",
        "Der Freund des Lehrers lachte über den Witz.",
    ),
    (
        clause(pronoun("he"), "waschen", PRESENT, noun("the cars", modifier=Possessor(noun("the kings"), True))),
        "He washes the kings' cars.",
        "Er wäscht die Autos der Könige.",
    ),
    (
        clause(pronoun("he"), "kaufen", PAST, noun("the car", "red", Possessor(name("Julia"), True))),
        "He bought Julia's red car.",
        "Er kaufte Julias rotes Auto.",
    ),
    (
        clause(
            noun("the man", modifier=PrepositionalModifier(ATTRIBUTES[0], noun("the hat", "red"))), "lächeln", PRESENT
        ),
        "The man with the red hat smiles.",
        "Der Mann mit dem roten Hut lächelt.",
    ),
    (
        clause(
            Coordination(noun("my brother"), noun("the nurse")),
            "sehen",
            PAST,
            Coordination(noun("the dog"), noun("the bear")),
        ),
        "My brother and the nurse saw the dog and the bear.",
        "Mein Bruder und die Krankenschwester sahen den Hund und den Bären.",
    ),
    (
        clause(noun("the man", modifier=clause(Gap(), "helfen", PRESENT, pronoun("we"))), "weinen", PAST),
        "The man who helps us cried.",
        "Der Mann, der uns hilft, weinte.",
    ),
    (
        clause(
            pronoun("I"), "lesen", PERFECT, noun("the book", modifier=clause(pronoun("she"), "kaufen", PERFECT, Gap()))
        ),
        "I have read the book that she has bought.",
        "Ich habe das Buch gelesen, das sie gekauft hat.",
    ),
    (
        clause(noun("the women", modifier=clause(name("Paul"), "helfen", PAST, Gap())), "danken", PAST, pronoun("he")),
        "The women whom Paul helped thanked him.",
        "Die Frauen, denen Paul half, dankten ihm.",
    ),
    (
        clause(noun("the bus", modifier=clause(pronoun("we"), "warten", PRESENT, Gap())), "ankommen", PRESENT),
        "The bus for which we wait arrives.",
        "Der Bus, auf den wir warten, kommt an.",
    ),
    (
        clause(
            pronoun("they"),
            "träumen",
            PRESENT,
            noun("the village", modifier=clause(pronoun("they"), "lieben", PRESENT, Gap())),
        ),
        "They dream of the village that they love.",
        "Sie träumen von dem Dorf, das sie lieben.",
    ),
    (
        clause(
            pronoun("he"),
            "sagen",
            PRESENT,
            complement=SubordinateClause("that", "dass", clause(pronoun("she"), "anrufen", PERFECT, pronoun("he"))),
        ),
        "He says that she has called him.",
        "Er sagt, dass sie ihn angerufen hat.",
    ),
    (
        clause(
            pronoun("we"),
            "versuchen",
            PAST,
            complement=clause(Gap(), "anrufen", VerbForm("infinitive"), noun("the doctor")),
        ),
        "We tried to call the doctor.",
        "Wir versuchten, den Arzt anzurufen.",
    ),
    (
        clause(
            pronoun("I"),
            "versprechen",
            PERFECT,
            complement=clause(Gap(), "lesen", VerbForm("infinitive"), noun("the book")),
        ),
        "I have promised to read the book.",
        "Ich habe versprochen, das Buch zu lesen.",
    ),
    (
        Sentence(
            "statement",
            clause(pronoun("we"), "schlafen", PAST),
            SubordinateClause("because", "weil", clause(Expletive(), "regnen", PAST)),
        ),
        "We slept because it rained.",
        "Wir schliefen, weil es regnete.",
    ),
    (
        Sentence(
            "statement",
            clause(noun("the woman"), "aufwachen", PAST),
            SubordinateClause("when", "als", clause(noun("the man"), "ankommen", PAST)),
            subordinate_first=True,
        ),
        "When the man arrived, the woman woke up.",
        "Als der Mann ankam, wachte die Frau auf.",
    ),
    (
        Sentence(
            "statement",
            clause(pronoun("I"), "bleiben", PRESENT, complement=at("the house")),
            SubordinateClause(
                "although", "obwohl", clause(noun("the guests"), "beschweren", PRESENT, noun("the dinner"))
            ),
        ),
        "I stay in the house although the guests complain about the dinner.",
        "Ich bleibe im Haus, obwohl sich die Gäste über das Abendessen beschweren.",
    ),
    (
        Sentence(
            "statement",
            clause(pronoun("he"), "arbeiten", PAST),
            conjunction=("but", "aber"),
            second=clause(pronoun("she"), "schlafen", PAST, time=on("Monday"), front="time"),
        ),
        "He worked, but on Monday, she slept.",
        "Er arbeitete, aber am Montag schlief sie.",
    ),
    (
        clause(
            pronoun("she"),
            "schreiben",
            PAST,
            noun("a letter"),
            manner=often("carefully"),
            place=at("the garden"),
            time=on("Sunday"),
        ),
        "She wrote a letter carefully in the garden on Sunday.",
        "Sie schrieb am Sonntag sorgfältig einen Brief im Garten.",
    ),
]

STATEMENTS += [
    (
        clause(
            noun("some nurses"),
            "treffen",
            PRESENT,
            pronoun("I"),
            remark=find_entry(ADVERBS, "therefore"),
            front="remark",
        ),
        "Therefore, some nurses meet me.",
        "Deshalb treffen mich einige Krankenschwestern.",
    ),
    (
        clause(noun("the woman"), "sehen", PRESENT, pronoun("she"), time=on("today"), front="time"),
        "Today, the woman sees her.",
        "Heute sieht die Frau sie.",
    ),
    (
        clause(
            pronoun("we"),
            "lesen",
            VerbForm("present", negated=True),
            noun("the book", modifier=clause(pronoun("she"), "kaufen", PERFECT, Gap())),
        ),
        "We do not read the book that she has bought.",
        "Wir lesen das Buch nicht, das sie gekauft hat.",
    ),
]

QUESTIONS: list[tuple[Clause, str, str]] = [
    (
        clause(noun("the student"), "verstehen", PRESENT, noun("the question")),
        "Does the student understand the question?",
        "Versteht der Student die Frage?",
    ),
    (
        clause(pronoun("you"), "einladen", PERFECT, noun("the neighbours")),
        "Have you invited the neighbours?",
        "Haben Sie die Nachbarn eingeladen?",
    ),
    (
        clause(pronoun("I"), "sein", PRESENT, complement=AdjectivePhrase(find_entry(ADJECTIVES, "tired"), False)),
        "Am I tired?",
        "Bin ich müde?",
    ),
    (
        clause(InterrogativePronoun(True), "öffnen", PAST, noun("the window")),
        "Who opened the window?",
        "Wer öffnete das Fenster?",
    ),
    (
        clause(noun("the girl"), "essen", PRESENT, InterrogativePronoun(False)),
        "What does the girl eat?",
        "Was isst das Mädchen?",
    ),
    (
        clause(pronoun("you"), "sehen", PERFECT, InterrogativePronoun(True)),
        "Whom have you seen?",
        "Wen haben Sie gesehen?",
    ),
    (
        clause(pronoun("she"), "vertrauen", PRESENT, InterrogativePronoun(True)),
        "Whom does she trust?",
        "Wem vertraut sie?",
    ),
    (
        clause(pronoun("they"), "warten", PAST, InterrogativePronoun(True)),
        "For whom did they wait?",
        "Auf wen warteten sie?",
    ),
    (
        clause(name("Peter"), "kaufen", VerbForm("future"), noun("which coat")),
        "Which coat will Peter buy?",
        "Welchen Mantel wird Peter kaufen?",
    ),
    (
        clause(pronoun("you"), "geben", PERFECT, noun("which pupils"), noun("the books")),
        "To which pupils have you given the books?",
        "Welchen Schülern haben Sie die Bücher gegeben?",
    ),
    (
        clause(noun("the exam"), "anfangen", PRESENT, question=WHEN),
        "When does the exam begin?",
        "Wann fängt die Prüfung an?",
    ),
    (clause(pronoun("he"), "wohnen", PRESENT, question=WHERE), "Where does he live?", "Wo wohnt er?"),
    (clause(pronoun("he"), "gehen", PAST, question=WHITHER), "Where did he go?", "Wohin ging er?"),
]


@pytest.mark.parametrize(("node", "english", "german"), STATEMENTS, ids=[english for _, english, _ in STATEMENTS])
def test_statements(node: Clause | Sentence, english: str, german: str) -> None:
    assert both_lines(node) == (english, german)


@pytest.mark.parametrize(("node", "english", "german"), QUESTIONS, ids=[english for _, english, _ in QUESTIONS])
def test_questions(node: Clause, english: str, german: str) -> None:
    assert both_lines(node, question=True) == (english, german)


def tree_of(node: Clause) -> str:
    sentence = Sentence("statement", node)
    return realise_pair(sentence, realise_english(sentence)).tree


def test_trees_follow_the_penn_treebank() -> None:
    who = clause(Gap(), "helfen", PRESENT, pronoun("we"))
    reading = clause(
        noun("the man", modifier=who), "lesen", VerbForm("present", progressive=True), noun("a book", "new")
    )
    assert tree_of(reading) == (
        "(S (NP (NP (DT The) (NN man)) (SBAR (WHNP (WP who)) (S (VP (VBZ helps) (NP (PRP us))))))"
        " (VP (VBZ is) (VP (VBG reading) (NP (DT a) (JJ new) (NN book)))) (. .))"
    )
    wish = clause(pronoun("she"), "abholen", modal("want to", "present"), name("Anna"))
    assert tree_of(wish) == (
        "(S (NP (PRP She)) (VP (VBZ wants) (S (VP (TO to) (VP (VB pick) (PRT (RP up)) (NP (NNP Anna)))))) (. .))"
    )


def test_alignment_of_a_separable_verb() -> None:
    sentence = Sentence("statement", clause(name("Paul"), "abholen", PAST, noun("the child")))
    example = realise_pair(sentence, realise_english(sentence))
    assert example.source_tokens == ("Paul", "picked", "up", "the", "child", ".")
    assert example.target_tokens == ("Paul", "holte", "das", "Kind", "ab", ".")
    assert example.alignment == ((0, 0), (1, 1), (1, 4), (2, 1), (2, 4), (3, 2), (4, 3), (5, 5))
