"""The paper's experiments, a module for each table or argument; each returns records that `printed` turns into text."""
