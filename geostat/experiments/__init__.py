"""The paper's experiments: the sink, regimes of heads, chance."""
