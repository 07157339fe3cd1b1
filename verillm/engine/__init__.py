"""Run a model. Importing this package loads no torch; ``transformers_engine`` does."""
