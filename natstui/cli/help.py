"""`natstui help TOPIC`: explains a command, a group of commands, or a kind of finding."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from natstui.cli.sections import command
from natstui.errors import UsageError
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind


def _command_help(context: click.Context, topic_parts: tuple[str, ...]) -> str | None:
    """Return the help of a command; None if it does not exist."""
    from natstui.cli.root import root

    command: click.Command = root
    group_context = click.Context(root, info_name="natstui", terminal_width=context.terminal_width)
    for name in topic_parts:
        subcommand = (
            command.get_command(group_context, name) if isinstance(command, click.Group) else None
        )
        if subcommand is None:
            return None
        command = subcommand
        group_context = click.Context(command, parent=group_context, info_name=name)
    return command.get_help(group_context)


def _group_help(topic_parts: tuple[str, ...]) -> str | None:
    """Return the list of a group of commands by its title, such as `change`; None if it does not
    exist.
    """
    from natstui.cli.root import COMMANDS_BY_TOPIC

    title = " ".join(topic_parts).lower()
    for topic, commands in COMMANDS_BY_TOPIC.items():
        if topic.lower() == title:
            formatter = click.HelpFormatter()
            with formatter.section(topic):
                formatter.write_dl(
                    [(name, command_entry.help) for name, command_entry in commands.items()]
                )
            return formatter.getvalue().rstrip()
    return None


def _finding_help(topic_parts: tuple[str, ...]) -> str | None:
    """Return the explanation of a finding by its code or label; None if it does not exist."""
    title = " ".join(topic_parts).lower()
    kinds = [kind for kind in KINDS.values() if title in (kind.code.lower(), kind.word.lower())]
    return "\n\n".join(map(_kind_help, kinds)) or None


def _kind_help(kind: Kind) -> str:
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


def _complete_topic(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from natstui.cli.root import COMMANDS_BY_TOPIC

    commands = {
        name: command_entry.help
        for topic in COMMANDS_BY_TOPIC.values()
        for name, command_entry in topic.items()
    }
    kinds = {kind.code: kind.word for kind in KINDS.values()}
    help_by_topic = {**commands, **kinds}
    return [
        CompletionItem(name, help=text)
        for name, text in help_by_topic.items()
        if name.lower().startswith(incomplete.lower())
    ]


@command("help")
@click.argument("topic", nargs=-1, shell_complete=_complete_topic)
@click.pass_context
def help_(context: click.Context, topic: tuple[str, ...]) -> None:
    """Explain a command, a group or a finding.

    `natstui help stream add`, `natstui help stores`, `natstui help NT-C07`, `natstui help 'no
    open pulls'`. Without TOPIC: the list of all commands.
    """
    text = _command_help(context, topic) or _group_help(topic) or _finding_help(topic)
    if text is None:
        topic_text = " ".join(topic)
        raise UsageError(
            f"there is no help on {topic_text!r}: TOPIC is a command or group of natstui "
            "--help, or a "
            "finding of natstui health --list"
        )
    click.echo(text)
