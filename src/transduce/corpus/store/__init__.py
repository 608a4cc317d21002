"""The store of a run: its pairs as tokens on disk, made once and read at every start.

Files of a store, the folder `training/store` of a run:

    tokenizer.json                  the subwords; for two vocabularies, source.tokenizer.json and target.tokenizer.json
    source.ids, target.ids          the tokens of all sentences of a side, without gaps, two or four bytes each
    source.offsets, target.offsets  the first token of each sentence, and the end of the last
    store.json                      the description: pairs of each corpus, report of dropped pairs, sizes and checksums
                                    of the other files, the fingerprint, and a seal over all of it

The fingerprint is the SHA-256 of the version of this format, the settings that determine the tokens and their mixture
(`max_length`, `ratio`, `temperature`, `checks`, `subwords`, and the kind, tag and weight of each corpus), the checksums
of the corpora's files, and the subwords of another model if the run begins with one. Paths do not count. If
`checks: {overlap: drop}` compares with the validation and test sets, a dot and a checksum of these sets follow.

Suppose a run was prepared from train.en and train.de, 29,000 pairs, with fingerprint 5f0c…:

    called again                                        5f0c…, sizes match: opened, no pair is read
    the files have moved to another folder              5f0c…: opened; they are read once for their checksums
    `subwords.size` has changed, no checkpoint yet      a31e…: made again
    `subwords.size` has changed, there is a checkpoint  a31e…: refused, because the run would lose its vocabulary
    source.ids is truncated, there is a checkpoint      5f0c…: made again, with the same bytes
    killed while it encodes                             the next call continues after the last saved state: at most
                                                        200,000 pairs are encoded again

Everything is written into the folder `making`. There, `begun.json` says which subwords were learned and for which
fingerprint, and `state.json` says how many bytes of each file are flushed. At the end the old store.json is deleted,
the files are moved into place, and the new store.json is written last: without it there is no store.

`preparation` tells this story from top to bottom. `encoding` reads and encodes pairs in batches, on all cores; memory
does not grow with the corpora. The planner reads a store as a `transduce.corpus.store.token_store.TokenStore`.
"""
