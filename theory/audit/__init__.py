"""Audit of every edition against simulation."""
