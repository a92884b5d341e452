# SPDX-License-Identifier: GPL-2.0-only
"""Compound pages kept compound in the per-CPU lists: the tables of Yoo, 2025.

Base pages faulted in and freed (pft), and a compiler at work (kernbench), each with three choices
of sizes for transparent huge pages, on kernels that differ in CONFIG_PCP_KEEP_COMPOUND only.
"""

KERNELS = ("pagehaul", "pcp-compound")

# Sizes in KiB by what they are called; the kernel tries the largest first.
SIZES = {
    "2MB-32kB-16kB": (2048, 32, 16),
    "32kB-16kB": (32, 16),
    "16kB": (16,),
}
