# SPDX-License-Identifier: GPL-2.0-only
"""The errors a user sees."""


class PagehaulError(Exception):
    """One clear line that says what is wrong and what to do about it.

    The command line prints it as `pagehaul: error: ...` and exits with `status`; it never shows a
    traceback. Further lines may carry evidence, such as the end of a log.
    """

    status = 1


class UsageError(PagehaulError):
    """The command line is wrong in a way that its parser does not see."""

    status = 2


class NoProcessError(PagehaulError):
    """A process does not exist, or has ended."""

    status = 4
