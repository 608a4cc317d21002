"""The paper's experiments, a module for each table or argument; each returns records that it also turns into text."""
