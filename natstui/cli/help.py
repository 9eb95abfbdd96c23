"""`natstui help TOPIC`: a command, a group of commands, or a kind of finding, in words."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from natstui.cli.sections import command
from natstui.errors import UsageError
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind


def _command(context: click.Context, words: tuple[str, ...]) -> str | None:
    """Return the help of a command by its words; None where there is no such command."""
    from natstui.cli.root import root

    command: click.Command = root
    within = click.Context(root, info_name="natstui", terminal_width=context.terminal_width)
    for word in words:
        found = command.get_command(within, word) if isinstance(command, click.Group) else None
        if found is None:
            return None
        command = found
        within = click.Context(command, parent=within, info_name=word)
    return command.get_help(within)


def _group(words: tuple[str, ...]) -> str | None:
    """Return the commands of a group of the list, as "change"."""
    from natstui.cli.root import TOPICS

    wanted = " ".join(words).lower()
    for topic, commands in TOPICS.items():
        if topic.lower() == wanted:
            formatter = click.HelpFormatter()
            with formatter.section(topic):
                formatter.write_dl([(name, listed.help) for name, listed in commands.items()])
            return formatter.getvalue().rstrip()
    return None


def _finding(words: tuple[str, ...]) -> str | None:
    """Return what a finding means, by its code or by what it is called."""
    wanted = " ".join(words).lower()
    found = [one for one in KINDS.values() if wanted in (one.code.lower(), one.word.lower())]
    return "\n\n".join(map(_told, found)) or None


def _told(kind: Kind) -> str:
    lines = [
        f"{kind.code} {kind.word}: {kind.severity}, of a {kind.entity}",
        f"  means  {kind.sentence}",
        f"  check  {kind.check}",
        f"  do     {kind.act}",
        f"  reported after {kind.enter_s:g} s, over when absent for {kind.leave_s:g} s",
    ]
    if kind.thresholds:
        lines.append(f"  thresholds  {', '.join(kind.thresholds)} (natstui health --list)")
    return "\n".join(lines)


def _complete(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from natstui.cli.root import TOPICS

    commands = {name: one.help for topic in TOPICS.values() for name, one in topic.items()}
    kinds = {one.code: one.word for one in KINDS.values()}
    everything = {**commands, **kinds}
    return [
        CompletionItem(word, help=text)
        for word, text in everything.items()
        if word.lower().startswith(incomplete.lower())
    ]


@command("help")
@click.argument("topic", nargs=-1, shell_complete=_complete)
@click.pass_context
def help_(context: click.Context, topic: tuple[str, ...]) -> None:
    """Explain a command, a group or a finding.

    `natstui help stream add`, `natstui help stores`, `natstui help NT-C07`, `natstui help 'no
    open pulls'`. Without TOPIC: the list of all commands.
    """
    text = _command(context, topic) or _group(topic) or _finding(topic)
    if text is None:
        said = " ".join(topic)
        raise UsageError(
            f"there is no help on {said!r}: TOPIC is a command or group of natstui --help, or a "
            "finding of natstui health --list"
        )
    click.echo(text)
