"""Reading and writing images, and models in the format of the UAI inference competitions."""

from logsuper.io._arrays import encode_zarr as encode_zarr  # for other rooms
from logsuper.io._arrays import is_zarr as is_zarr
from logsuper.io._folders import atomic_folder as atomic_folder
from logsuper.io._picture import ImageInfo
from logsuper.io._read import inspect_image, read_image
from logsuper.io._read import read_mask as read_mask  # for other rooms
from logsuper.io._sequence import SUFFIXES, ImageFiles, find_images
from logsuper.io._uai import read_evidence, read_uai, write_uai
from logsuper.io._uai_results import write_uai_results
from logsuper.io._write import check_writable as check_writable  # for other rooms
from logsuper.io._write import encode_image, write_image

__all__ = [
    "SUFFIXES",
    "ImageFiles",
    "ImageInfo",
    "encode_image",
    "find_images",
    "inspect_image",
    "read_evidence",
    "read_image",
    "read_uai",
    "write_image",
    "write_uai",
    "write_uai_results",
]
