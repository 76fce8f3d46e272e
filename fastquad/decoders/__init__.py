"""Decoders: maps from a few latent numbers to a signal, with their derivatives.

A solver needs three things of a decoder G, all on a batch of b latent vectors at once (the rows of Z, (b, k)):

    values = forward(Z)                     G(z_s),                       (b, n)
    values, pullback = vjp(Z)               pullback(V)_s = J(z_s)^T v_s, (b, k)      reverse mode
    values, J = jacobian(Z)                 J_s = ∂G/∂z at z_s,           (b, n, k)   forward mode

`Decoder` is a fully connected network held as plain arrays. With `h_0 = z`, `a_l = h_{l-1} W_l + b_l` and
`h_l = f_l(a_l)`, reverse mode is `g_{l-1} = (g_l ∘ f_l'(a_l)) W_l^T`, and forward mode carries the k rows of
`T_l = (T_{l-1} W_l) ∘ f_l'(a_l)` with `T_0 = I`; all of it is matrix products, so BLAS does the work and no autograd
framework is needed. `TorchDecoder` and `JaxDecoder` put any network of those frameworks behind the same three methods.
"""

from fastquad.system.lazy import lazily

_PLACES = {
    "base": "BaseDecoder",
    "dense": "Decoder",
    "frameworks": "JaxDecoder TorchDecoder",
    "loading": "load mnist",
}
__all__ = [name for names in _PLACES.values() for name in names.split()]
__getattr__ = lazily(__name__, _PLACES)
