"""Audit of every edition of the bounds against simulation."""
