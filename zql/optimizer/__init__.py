"""Optimizer: logical plan to logical plan, one listed rule at a time."""
