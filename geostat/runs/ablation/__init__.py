"""What the model loses where single heads are cut, budgets are shared out, regimes are cut."""
