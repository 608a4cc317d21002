"""The baseline models and mixers with which the paper compares the Transformer (sections 2 and 4, Table 2)."""
