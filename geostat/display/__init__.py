"""What the page shows and no group of a run holds: curves, bands, shares and counts, for the
room that renders.
"""
