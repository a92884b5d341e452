# SPDX-License-Identifier: GPL-2.0-only
"""The version of the tool and of the series; pyproject.toml reads it here."""

VERSION = "0.1.0"
