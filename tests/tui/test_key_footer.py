"""The footer shows whole keys only, and says when there are more."""

from __future__ import annotations

from natstui.jetstream.broker import Broker
from tests.tui.viewer import Viewer, viewing


def offered(viewer: Viewer) -> list[str]:
    """Every key the footer would show with room enough, with its word."""
    active = viewer.app.screen.active_bindings.values()
    shown = [each.binding for each in active if each.binding.show]
    texts = [f"{viewer.app.get_key_display(binding)} {binding.description}" for binding in shown]
    return list(dict.fromkeys(texts))


async def test_only_whole_keys_are_shown_and_a_resize_chooses_anew(nats_server: Broker) -> None:
    async with viewing(nats_server.url, size=(80, 24)) as viewer:
        last = viewer.text.splitlines()[-1].rstrip()
        keys = offered(viewer)
        fitting = last.removesuffix(" …")
        assert fitting != last, "a mark for what is left out"
        # Key by key the line is the beginning of the whole list: nothing is cut in the middle.
        count = [" ".join(keys[:n]) for n in range(len(keys))].index(fitting)
        assert 3 < count < len(keys)

        await viewer.pilot.resize_terminal(240, 24)
        await viewer.until(lambda: viewer.text.splitlines()[-1].rstrip() == " ".join(keys))

        exact = len(" ".join(keys))
        await viewer.pilot.resize_terminal(exact, 24)
        await viewer.until(lambda: viewer.text.splitlines()[-1] == " ".join(keys), "just enough")

        await viewer.pilot.resize_terminal(exact - 1, 24)
        expected = " ".join(keys[:-1]) + " …"
        await viewer.until(lambda: viewer.text.splitlines()[-1].rstrip() == expected, "one less")
