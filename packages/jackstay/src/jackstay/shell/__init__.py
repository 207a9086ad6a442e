"""Helpers for command-line programs: entry point, signals, parser, screen, shell completion, files of MCP hosts.

Shared by the `jackstay`, `apcore-mcp` and `procontext` commands. It imports as little as possible: until a command has
installed its signal handlers, Ctrl-C prints a traceback.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._entry_point": "run_command",
        "._grammar": "Command Option Program Value command_from_parser value_from_metavar",
        "._hosts": (
            "HOSTS Host HostChange HostedServer changed_text config_text deep_link find_host from_entry "
            "install_server servers_in to_entry uninstall_server write_config"
        ),
        "._parser": "CommandParser",
        "._screen": (
            "BLUE BOLD CYAN DIM GREEN RED YELLOW Screen display_width escape_controls first_line paint_json "
            "print_error wrap"
        ),
        "._scripts": "SHELLS completion_script",
        "._signals": "cancel_on_signal",
        "._status_line": "StatusLine erase_before_exit erase_status hidden_status output",
        "jackstay.errors": "did_you_mean",
    },
)
