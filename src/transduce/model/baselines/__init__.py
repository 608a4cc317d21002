"""The families of models beside the Transformer: what the paper compares itself with (sections 2 and 4, Table 2)."""
