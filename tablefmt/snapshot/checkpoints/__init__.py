"""Checkpoints: the state at a version as a root object and immutable Parquet parts. Spec: CKP."""
