"""How any method is run: requests answered, budgets kept, the verdict made, checkpoints written."""
