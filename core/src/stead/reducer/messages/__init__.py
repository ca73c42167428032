"""The message formats that the reducer works on, and what a format of your own needs."""

from stead.reducer.messages.codec import Call, Codec, Content, Media, Result, View, argument_object
from stead.reducer.messages.detect import FORMATS, codec_named, find_codec

__all__ = [
    "FORMATS",
    "Call",
    "Codec",
    "Content",
    "Media",
    "Result",
    "View",
    "argument_object",
    "codec_named",
    "find_codec",
]
