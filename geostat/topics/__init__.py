"""Results of a run by topic of the paper: claims, verdicts, key results, paragraphs."""
