# SPDX-License-Identifier: BSD-3-Clause
"""The parts of bench/compare. Begin reading with cells.py."""
