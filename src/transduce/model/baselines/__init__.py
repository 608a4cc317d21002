"""The Transformer's rivals, with which the paper compares it (sections 2 and 4, Table 2)."""
