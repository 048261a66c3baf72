"""Claims, tolerances, answers, sentences, requirements."""
