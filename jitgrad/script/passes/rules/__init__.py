"""Rewrite rules, one row each."""
