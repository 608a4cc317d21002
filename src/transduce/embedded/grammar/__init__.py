"""The rules: which sentences there are, as choices that are counted, sampled and enumerated alike."""
