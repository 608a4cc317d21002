"""The grammar: a rule is a function, named after its constituent, that returns a choice of derivations."""
