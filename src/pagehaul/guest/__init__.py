# SPDX-License-Identifier: GPL-2.0-only
"""Guests: the machines that are booted, in emulation, on KVM or in virtual time."""
