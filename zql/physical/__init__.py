"""Physical plans: how to compute. Stages of fused steps, and their SQL."""
