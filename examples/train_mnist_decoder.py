"""Train the decoder that comes with fastquad, as in section V-B of the paper.

A variational autoencoder on the MNIST training set: encoder 784-500-500-20+20 and decoder 20-500-500-784, fully
connected, softplus between the layers and a sigmoid at the end. Pixels are taken as probabilities, so the loss of
an image x with code z ~ q(z|x) = N(mean, variance) is

    −ELBO = Σ_pixels BCE(G(z), x) + KL(q(z|x) ‖ N(0, I)),

minimised by Adam at rate 0.001 in batches of 100. Only the decoder is kept, rounded to float16; the test ELBO is
measured after rounding, so it is that of the file. 25 epochs take about four minutes on one core.

    python examples/train_mnist_decoder.py --data FOLDER_OF_THE_IDX_FILES --output mnist_decoder.npz

The same seed gives the same weights on the same machine with the same PyTorch. Needs the extra `fastquad[torch]`.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus
from tqdm import tqdm

from fastquad import datasets, decoders

N_LATENT, WIDTH, N_PIXELS = 20, 500, 784


class Autoencoder(nn.Module):
    """Encoder and decoder; the decoder gives logits, its sigmoid is part of the loss."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList(
            [nn.Linear(N_PIXELS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * N_LATENT)]
        )
        self.decoder = nn.ModuleList([nn.Linear(N_LATENT, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, N_PIXELS)])

    def negative_elbo(self, images, noise):
        """Mean over the batch, with one sample of the code an image."""
        mean, log_variance = layers(self.encoder, images).chunk(2, dim=1)
        codes = mean + noise * torch.exp(log_variance / 2)
        loss = binary_cross_entropy_with_logits(layers(self.decoder, codes), images, reduction="sum")
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum() / 2
        return (loss + divergence) / len(images)


def layers(linear, h):
    """The linear layers with softplus between them."""
    for layer in linear[:-1]:
        h = softplus(layer(h))
    return linear[-1](h)


def train(images, *, epochs, batch, rate, generator):
    """The trained autoencoder; a progress bar shows the ELBO, and the time left."""
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    n_batches = len(images) // batch
    bar = tqdm(total=epochs * n_batches, unit=" steps", disable=None)
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=generator)
        total = 0.0
        for step in range(n_batches):
            chosen = images[order[step * batch : (step + 1) * batch]]
            loss = model.negative_elbo(chosen, torch.randn(batch, N_LATENT, generator=generator))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            bar.set_postfix_str(f"epoch {epoch + 1}, train ELBO {-total / (step + 1):.2f}", refresh=False)
            bar.update()
    bar.close()
    return model


@torch.no_grad()
def mean_elbo(model, images, generator, samples=5):
    """Mean over the images and a few samples of the code each."""
    values = [
        model.negative_elbo(images, torch.randn(len(images), N_LATENT, generator=generator)) for _ in range(samples)
    ]
    return -torch.stack(values).mean().item()


def rounded(model):
    """The model with its decoder rounded to float16, in place."""
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.copy_(parameter.half().float())
    return model


def as_decoder(model):
    """The decoder half as a fastquad decoder."""
    return decoders.Decoder(
        [layer.weight.detach().numpy().T for layer in model.decoder],
        [layer.bias.detach().numpy() for layer in model.decoder],
        ["softplus", "softplus", "sigmoid"],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the four IDX files (default: FASTQUAD_DATA, else download)")
    parser.add_argument("--output", default="mnist_decoder.npz")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    # One thread: sums of several threads may come in another order, and the weights would not be the same again.
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    data = datasets.mnist(arguments.data)
    train_images, test_images = (
        torch.from_numpy(images.reshape(-1, N_PIXELS).astype(np.float32) / 255)
        for images in (data.train_images, data.test_images)
    )
    settings = {"epochs": arguments.epochs, "batch": arguments.batch, "rate": arguments.rate}
    model = train(train_images, generator=generator, **settings)
    elbo = mean_elbo(rounded(model), test_images, generator)
    print(f"test ELBO {elbo:.2f}")
    as_decoder(model).save(
        arguments.output,
        dtype=np.float16,
        test_elbo=f"{elbo:.2f}",
        training=" ".join(f"{name}={value}" for name, value in (settings | {"seed": arguments.seed}).items()),
    )


if __name__ == "__main__":
    main()
