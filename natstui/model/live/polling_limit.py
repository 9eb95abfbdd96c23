"""How much of a server and of a link polling may use."""

from __future__ import annotations

SERVER_SHARE = 0.05
"""Share of one core of the server."""
LINK_SHARE = 0.5
"""Share of the link, after the first complete view."""
POLLING_LIMIT_TEXT = (
    f"{100 * SERVER_SHARE:.0f} % of one server core and {100 * LINK_SHARE:.0f} % of the link"
)
