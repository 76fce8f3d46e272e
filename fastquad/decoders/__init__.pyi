from fastquad.decoders.base import BaseDecoder
from fastquad.decoders.dense import Decoder
from fastquad.decoders.frameworks import JaxDecoder, TorchDecoder
from fastquad.decoders.loading import load, mnist

__all__ = ["BaseDecoder", "Decoder", "JaxDecoder", "TorchDecoder", "load", "mnist"]
