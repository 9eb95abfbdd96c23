"""Every option of a consumer on servers 2.10 to 2.15, in the order of the form."""

from __future__ import annotations

from natstui.model.config_field import Field
from natstui.model.consumer_spec_basic import BASIC, START
from natstui.model.consumer_spec_delivery import DELIVERY, STORAGE
from natstui.model.consumer_spec_modes import PULL, PUSH

CONSUMER_FIELDS: tuple[Field, ...] = BASIC + START + DELIVERY + PULL + PUSH + STORAGE

CONSUMER_FIELD = {field.path: field for field in CONSUMER_FIELDS}

CONSUMER_SECTIONS = tuple(dict.fromkeys(field.section for field in CONSUMER_FIELDS))

NEW_CONSUMER: dict[str, object] = {"name": "", "durable_name": "", "ack_policy": "explicit"}
"""What an empty creation form starts with."""
