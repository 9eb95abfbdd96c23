"""Options of a stream: what it is called, what it stores and how long."""

from __future__ import annotations

from natstui.model.config_field import Field

BASIC = (
    Field(
        "name", "Name", "text", "Stream",
        "Up to 255 characters; no spaces, dots, * > / or \\.",
        fixed="a stream keeps its name; clone it to have another one",
    ),
    Field(
        "description", "Description", "text", "Stream",
        "For people: what is stored here and who cares for it.",
        default="", flag="description",
    ),
    Field(
        "subjects", "Subjects", "subjects", "Stream",
        "What it stores: subjects or filters such as orders.>; without any, its own name.",
        flag="subjects",
    ),
    Field(
        "storage", "Storage", "choice", "Stream",
        "file survives a restart; memory is faster and lost when its servers stop.",
        default="file", choices=("file", "memory"), flag="storage", flag_add_only=True,
        fixed="the storage of a stream cannot change; copy it into a new stream",
    ),
    Field(
        "retention", "Retention", "choice", "Stream",
        "limits keeps until a limit; interest until every consumer acked; workqueue until acked.",
        default="limits", choices=("limits", "interest", "workqueue"), flag="retention",
    ),
    Field(
        "metadata", "Metadata", "metadata", "Stream",
        "Your own key=value pairs, separated by commas.", flag="metadata",
    ),
)  # fmt: skip
