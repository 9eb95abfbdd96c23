"""Accounts of a server: APP with a monitor of least privilege, PLAIN without JetStream."""

from __future__ import annotations

MONITOR = """
accounts {
  APP: {
    jetstream: enabled
    users: [
      { user: app, password: app }
      { user: mon, password: mon, permissions: {
          publish: { allow: [
            "$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES",
            "$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.NAMES.*",
            "$JS.API.CONSUMER.INFO.*.*", "$SYS.REQ.USER.INFO"
          ] }
          subscribe: { allow: [
            "_INBOX_mon.>", "$JS.EVENT.ADVISORY.STREAM.>", "$JS.EVENT.ADVISORY.CONSUMER.>"
          ] }
      } }
      { user: mute, password: mute, permissions: { publish: { deny: ">" } } }
    ]
  }
  PLAIN: { users: [ { user: plain, password: plain } ] }
}
"""
