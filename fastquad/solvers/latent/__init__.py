"""Levenberg–Marquardt on the latent numbers of a decoder."""
