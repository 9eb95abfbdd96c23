"""The commands of managing, and the records that answer them."""

from __future__ import annotations

from natstui.model.manage import (
    Change,
    PreviewPurge,
    ReadJournal,
    ReadSurroundings,
    SaveTemplate,
    Undo,
)
from natstui.model.send import AnswerMessage, PublishMessage, PullNext, RequestReply
from natstui.model.stored import BrowseMessages, CountSubjects, PreviewDelivery, ReadMessage
from natstui.model.tail import Answered, StartTail, StopTail, Tailed

ManagingCommand = (
    Change
    | Undo
    | PreviewPurge
    | ReadJournal
    | ReadSurroundings
    | SaveTemplate
    | BrowseMessages
    | ReadMessage
    | CountSubjects
    | PreviewDelivery
    | PublishMessage
    | RequestReply
    | PullNext
    | AnswerMessage
    | StartTail
    | StopTail
)

ManagingRecord = Answered | Tailed
"""For the viewer only: payloads and configurations that belong in no recording."""
