"""Logical plans: what to compute. The binder resolves every name and type once."""
