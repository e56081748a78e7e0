"""A page in the browser to clean masks and to segment images by hand (the extra `studio`)."""

from logsuper.studio._serve import serve

__all__ = ["serve"]
