"""State → rows, titles and lines of text. Pure: nothing here knows a widget."""
