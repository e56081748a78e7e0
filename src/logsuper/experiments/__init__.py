"""The experiments of the paper, each a module with ``run``, and the report of all of them."""
