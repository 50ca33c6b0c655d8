"""Reading of config.env: grammar, typed settings, ordered families, the immutable snapshot."""
