"""Renders a run as one page, figures and tables. Knows only xarray: what it prints travels in
the datasets' attributes.
"""
