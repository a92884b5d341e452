# SPDX-License-Identifier: GPL-2.0-only
"""The command line: a module for each verb, with its options and whom it asks to do the work."""
