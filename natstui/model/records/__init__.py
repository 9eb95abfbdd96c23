"""What happens (`Record`) and what is asked (`Command`), with their parts by subject.

May be imported by every room. A new kind of record begins in `record.py`.
"""
