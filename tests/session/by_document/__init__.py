"""A reader and a writer of sessions made from the text of FORMAT.md alone: they import no natstui.

They are the proof that the document says enough; what they cannot know, it does not say.
"""
