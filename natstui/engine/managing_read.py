"""The commands that only look: pages of messages, subjects, the journal, what a form needs."""

from __future__ import annotations

import json

from natstui.jetstream.admin_streams import purge_preview
from natstui.jetstream.browse import browse, count_subjects, read_message
from natstui.jetstream.delivery_preview import preview_delivery
from natstui.jetstream.surroundings import read_surroundings
from natstui.jetstream.writer import Writer
from natstui.model.manage import PreviewPurge, ReadJournal, ReadSurroundings
from natstui.model.stored import BrowseMessages, CountSubjects, PreviewDelivery, ReadMessage
from natstui.units import counted

ReadingCommand = (
    BrowseMessages
    | ReadMessage
    | CountSubjects
    | PreviewDelivery
    | ReadJournal
    | ReadSurroundings
    | PreviewPurge
)


async def read_things(writer: Writer, command: ReadingCommand) -> tuple[str, object]:
    """Return a sentence and the answer; raises the request errors."""
    match command:
        case BrowseMessages():
            page = await browse(writer.client, command)
            return f"{counted(len(page.messages), 'message')} of {page.stream}", page
        case ReadMessage():
            message = await read_message(writer.client, command)
            return f"message {command.stream_seq} of {command.stream}", message
        case CountSubjects():
            found = await count_subjects(writer.client, command.stream, command.filter_subject)
            return f"{counted(len(found), 'subject')} of {command.stream}", found
        case PreviewDelivery():
            return "what it would deliver", await preview_delivery(writer.client, command)
        case ReadJournal():
            here = writer.client.connection.target
            entries = [entry for entry in writer.journal.entries() if entry.server == here]
            newest = entries[::-1][: command.entries_count]
            return f"{counted(len(entries), 'change')} on this server", newest
        case ReadSurroundings():
            return "what a form needs", await read_surroundings(writer.client, command.stream)
        case PreviewPurge():
            asked = json.loads(command.body_json)
            count = await purge_preview(writer.client, command.stream, asked)
            return f"This will remove {counted(count, 'message')}", count
