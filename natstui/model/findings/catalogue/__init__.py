"""The catalogue: every kind of finding with its texts, and the statuses without a finding.

It imports nothing else of natstui but `thresholds`, so that the smallest part of the analysis can
import it.
"""
