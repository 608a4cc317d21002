"""The token store of a run: its pairs as tokens on disk, which are written once and opened whenever the run starts.

A store is the folder `training/store` of a run and consists of these files:

    tokenizer.json                  the subwords; if each side has its own, source.tokenizer.json and
                                    target.tokenizer.json instead
    source.ids, target.ids          the tokens of all sentences on a side, concatenated, in two or four bytes each
    source.offsets, target.offsets  the offset of the first token of each sentence, and the total number of tokens
    store.json                      the description: the number of pairs from each corpus, the report on dropped pairs,
                                    the sizes and checksums of the other files, the fingerprint, and a seal over these

The fingerprint is a SHA-256 checksum of everything that determines the content of the store: the version of its format,
the settings `max_length`, `ratio`, `temperature`, `checks`, `noise` and `subwords`, the settings of each corpus except
its paths, the checksums of its files and, if the run starts from another model, the subwords of that model. Paths do
not count, so files can be moved. If `checks: {overlap: drop}` compares the training pairs with the validation and test
sets, a dot and a checksum of these sets are appended.

For example, suppose that a run with the fingerprint 5f0c… was prepared from the 29,000 pairs in train.en and train.de.
What the next call does depends on what has happened since then:

    nothing                                             5f0c…: the store is opened, and no pair is read
    the files were moved to another folder              5f0c…: the files are read for their checksums, and the store
                                                        is opened
    `subwords.size` was changed, no checkpoint yet      a31e…: the store is rebuilt
    `subwords.size` was changed after a checkpoint      a31e…: an error is raised, because the run would lose
                                                        its vocabulary
    source.ids was truncated after a checkpoint         5f0c…: the store is rebuilt with the same content
    the process was killed while encoding               the call continues from the last saved state, so at most
                                                        200,000 pairs are encoded again

All files are first written to the folder `making`. In this folder, `begun.json` records the subwords that were learned
and the fingerprint that they belong to, and `state.json` records how many bytes of each file have been flushed to disk.
After the last pair, the old store.json is deleted, the files are moved into place, and the new store.json is written. A
store without store.json is therefore incomplete.

The module `preparation` contains these steps in order. `encoding` reads and encodes the pairs in batches, on all cores
and with an amount of memory that does not depend on the size of the corpora. The planner reads a store through the
class `transduce.corpus.store.token_store.TokenStore`.
"""
