"""The paper's experiments, a module a table or argument; each gives records, which `transduce.paper.page` prints."""
