"""Reading and writing models in the format of the UAI inference competitions."""

from logsuper.io._uai import read_evidence, read_uai, write_uai

__all__ = ["read_evidence", "read_uai", "write_uai"]
