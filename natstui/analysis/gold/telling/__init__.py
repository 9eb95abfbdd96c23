"""What a report tells beside the tables: harm and advice of a finding, and what is drawn."""
