"""F1 where words decide the attachment: embedded sentences with a prepositional phrase right after an object.

"with the yellow scarf" belongs to the noun, "in the garden" to the verb, and both follow a noun phrase. Prints F1 of
the sentences of the splits `test` and `novel` that have such a phrase, and the share of phrases attached as in gold.

    python benchmarks/parsing/attachment.py runs/embedded-trees
"""

import argparse
from collections.abc import Iterator

from transduce.corpus.corpus_kinds import EmbeddedTrees
from transduce.parsing.bracket_scores import bracket_scores
from transduce.parsing.parser import Parser
from transduce.parsing.treebank_reader import read_treebank
from transduce.parsing.trees import Tree, words_of

Attachment = tuple[int, int, str]
"""Words before a prepositional phrase and at its end, and the label of the phrase that it is a part of."""


def attachments(tree: Tree, start: int = 0, in_verb_phrase: bool = False) -> Iterator[Attachment]:
    """Yields the prepositional phrases in verb phrases that follow a noun phrase, their sister."""
    if tree.is_preterminal:
        return
    previous, in_verb_phrase = "", in_verb_phrase or tree.label == "VP"
    for child in tree.children:
        assert isinstance(child, Tree)
        end = start + len(words_of(child))
        if in_verb_phrase and child.label == "PP" and previous == "NP":
            yield start, end, tree.label
        yield from attachments(child, start, in_verb_phrase)
        start, previous = end, child.label


def main() -> None:
    """Parses and prints."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("run", help="A run directory of recipes/embedded-trees.yaml.")
    parser = Parser.load(arguments.parse_args().run)
    print("split      sentences  F1      phrases  attached as in gold")
    for name in ("test", "novel"):
        trees = list(read_treebank(EmbeddedTrees.model_validate({"embedded_trees": name})))
        gold = [tree for tree in trees if any(attachments(tree))]
        output = [best[0].tree for best in parser.parse([words_of(tree) for tree in gold])]
        score = bracket_scores(gold, output, bootstrap=1000)
        wanted = [set(attachments(tree)) for tree in gold]
        right = sum(len(all_wanted & set(attachments(tree))) for all_wanted, tree in zip(wanted, output, strict=True))
        count, interval = sum(map(len, wanted)), f"[{score.low:.2f}, {score.high:.2f}]"
        print(f"{name:9}  {len(gold):9}  {score.f1:6.2f} {interval}  {count:7}  {right / count:.1%}")


if __name__ == "__main__":
    main()
