"""Attacks on the library: hostile arguments, files, command lines and kernel calls.

An attack is a module with ``TARGETS``: a name for each thing that is attacked, and a function that
makes one case of it from a random generator. Cases are run in worker processes (`worker`), which
the `runner` watches, so that a crash or a hang is counted, not suffered.
"""
