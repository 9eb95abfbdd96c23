"""`natstui stream|consumer|journal|undo`: changes without the viewer.

Options come from `model.assets`, one flag each. `root` names the commands; every change is done by
`jetstream.managing`.
"""
