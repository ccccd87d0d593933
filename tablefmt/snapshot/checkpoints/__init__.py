"""The state at a version as objects of its own: a root, and immutable Parquet parts. Spec: CKP."""
