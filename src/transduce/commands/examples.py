"""The two examples for each command that `transduce COMMAND --help` prints."""

EXAMPLES = {
    "demo": ("transduce demo", "transduce demo parsing --minutes 3"),
    "fetch": ("transduce fetch multi30k --out data", "transduce fetch embedded --out corpora"),
    "inspect": ("transduce inspect train.en train.de", "transduce inspect recipe.yaml --html corpus.html"),
    "split": (
        "transduce split all.en all.de --out data",
        "transduce split memory.tmx --from en --to de --validation 1000 --out data",
    ),
    "suggest": (
        "transduce suggest train.en train.de --minutes 60 --out recipe.yaml",
        "transduce suggest data/data.yaml --minutes 480 --out night.yaml",
    ),
    "train": (
        "transduce train recipe.yaml --out runs/mine",
        "transduce train recipe.yaml --out runs/wide --set model.d_model=256 --set training.minutes=120",
    ),
    "distil": (
        "transduce distil runs/mine --source mono.en --out runs/fast",
        "transduce distil runs/one runs/two --source mono.en --out runs/tiny --preset tiny",
    ),
    "average": (
        "transduce average runs/mine --last 5 --out runs/mean",
        "transduce average runs/mine 8000 9000 --out runs/mean",
    ),
    "translate": (
        "transduce translate runs/mine input.txt --out output.txt",
        "echo 'A man sleeps.' | transduce translate runs/mine --n-best 3",
    ),
    "translate-document": (
        "transduce translate-document runs/mine page.html --out page.de.html",
        "transduce translate-document runs/mine letter.docx --out letter.de.docx --glossary terms.tsv",
    ),
    "translate-corpus": (
        "transduce translate-corpus runs/mine corpus.en --out corpus.de",
        "transduce translate-corpus runs/mine mono.de --pairs backward --out pairs.tsv",
    ),
    "parse": (
        "transduce parse runs/parser sentences.txt --out trees.txt",
        "echo 'She saw a dog.' | transduce parse runs/parser",
    ),
    "score": (
        "transduce score runs/mine --source input.txt --target output.txt",
        "transduce score runs/one runs/two --source input.txt --target output.txt",
    ),
    "calibrate": ("transduce calibrate runs/mine", "transduce calibrate runs/mine --out confidence.html"),
    "serve": ("transduce serve runs/mine", "transduce serve en:de=runs/german en:fr=runs/french --port 8000"),
    "evaluate": (
        "transduce evaluate runs/mine --test test",
        "transduce evaluate runs/mine --source test.en --reference test.de --metric bleu,chrf,ter",
    ),
    "measure": (
        "transduce measure output.txt --reference test.de",
        "transduce measure one.txt two.txt --reference test.de --differences --html differences.html",
    ),
    "report": (
        "transduce report runs/mine --out report.html",
        "transduce report runs/mine runs/other --test test --out report.html --out report.md",
    ),
    "draw": (
        "transduce draw runs/mine 'A man sleeps.' --out attention.html",
        "transduce draw runs/parser 'She saw a dog.' --tree --out tree.svg",
    ),
    "info": ("transduce info runs/mine --verify", "transduce info base"),
    "import": (
        "transduce import opus-mt-en-de --out runs/opus",
        "transduce import fairseq-model --from en --to de --out runs/fairseq",
    ),
    "export": (
        "transduce export runs/mine --to ctranslate2 --out exported",
        "transduce export runs/mine --to browser --precision int8 --out page",
    ),
    "paper": ("transduce paper table1", "transduce paper table3 --run --minutes 5 --row A1 --row A2"),
    "bench": ("transduce bench train --preset tiny", "transduce bench translate runs/mine --precision int8"),
}
