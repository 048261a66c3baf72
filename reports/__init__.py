"""Rendering of a run as a page, figures and tables. Every printed label travels in the attributes
of the datasets.
"""
