"""The findings screen: open findings, worst first, with start, evidence and advice."""
