"""Screens of findings: open ones, worst first, with age, evidence and advice."""
