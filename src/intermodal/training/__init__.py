"""A small kit for training: modules that are plain trees, optimizers as functions of trees, mixed precision."""
