"""Data-parallel training of a small neural network that reads handwritten digits.

Every rank holds the whole model and its share of each batch; after each batch the gradients are added over all ranks
(``Allreduce``), so that all take the same step. Nothing is random but by a fixed seed: the same number of ranks gives the
same model, another number gives it but for rounding.

The data set is the one in scikit-learn's package: 1797 images of 8 x 8 pixels. No network is needed.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI
from sklearn.datasets import load_digits

from odh_mpi_examples.host import host_name
from odh_mpi_examples.progress import report

TRAINING_IMAGES = 1500
HIDDEN = 64
BATCH = 60
LEARNING_RATE = 0.1
MOMENTUM = 0.9

Parameters = list[np.ndarray]


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images and labels to train with, images and labels to test with, in an order that is always the same."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order] / 16.0, labels[order]
    return images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES], images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:]


def initial_parameters(inputs: int, classes: int) -> Parameters:
    """Weights and biases of two layers; the same on every rank."""
    random = np.random.default_rng(1)
    return [
        random.normal(0.0, np.sqrt(2.0 / inputs), (inputs, HIDDEN)),
        np.zeros(HIDDEN),
        random.normal(0.0, np.sqrt(2.0 / HIDDEN), (HIDDEN, classes)),
        np.zeros(classes),
    ]


def probabilities(parameters: Parameters, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hidden layer's output and the probability of each class."""
    weights, bias, out_weights, out_bias = parameters
    hidden = np.maximum(images @ weights + bias, 0.0)
    scores = hidden @ out_weights + out_bias
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def gradient(parameters: Parameters, images: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """The sum of the losses of these images, and the sum of their gradients as one flat array."""
    hidden, predicted = probabilities(parameters, images)
    rows = np.arange(len(labels))
    loss = -np.log(predicted[rows, labels] + 1e-12).sum()
    error = predicted
    error[rows, labels] -= 1.0
    hidden_error = (error @ parameters[2].T) * (hidden > 0.0)
    parts = (images.T @ hidden_error, hidden_error.sum(axis=0), hidden.T @ error, error.sum(axis=0))
    return float(loss), np.concatenate([part.ravel() for part in parts])


def train_epoch(
    world: MPI.Comm, parameters: Parameters, velocity: np.ndarray, images: np.ndarray, labels: np.ndarray, epoch: int
) -> float:
    """One pass over all images, every batch divided among the ranks; answers the mean loss."""
    order = np.random.default_rng(100 + epoch).permutation(len(images))
    total = 0.0
    for begin in range(0, len(order), BATCH):
        batch = order[begin : begin + BATCH]
        mine = batch[world.rank :: world.size]
        loss, summed = gradient(parameters, images[mine], labels[mine])
        message = np.append(summed, loss)
        world.Allreduce(MPI.IN_PLACE, message, op=MPI.SUM)
        total += message[-1]
        velocity *= MOMENTUM
        velocity += message[:-1] / len(batch)
        at = 0
        for parameter in parameters:
            parameter -= LEARNING_RATE * velocity[at : at + parameter.size].reshape(parameter.shape)
            at += parameter.size
    return total / len(order)


def accuracy(parameters: Parameters, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of images that are read correctly."""
    return float((probabilities(parameters, images)[1].argmax(axis=1) == labels).mean())


def save(parameters: Parameters, folder: Path) -> Path:
    """Writes the model to ``folder/digits.npz``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "digits.npz"
    np.savez(path, weights=parameters[0], bias=parameters[1], out_weights=parameters[2], out_bias=parameters[3])
    return path


def save_checkpoint(parameters: Parameters, velocity: np.ndarray, epoch: int, folder: Path) -> None:
    """Writes all that the next epoch needs; a crash in the middle leaves the checkpoint before."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / "unfinished.npz"
    np.savez(unfinished, *parameters, velocity=velocity, epoch=epoch)
    unfinished.replace(folder / "checkpoint.npz")


def go_on(world: MPI.Comm, parameters: Parameters, velocity: np.ndarray, folder: Path) -> int:
    """Brings every rank to the last checkpoint, which rank 0 reads; answers its epoch, 0 where there is none."""
    epoch = 0
    path = folder / "checkpoint.npz"
    if world.rank == 0 and path.exists():
        with np.load(path) as saved:
            epoch = int(saved["epoch"])
            velocity[:] = saved["velocity"]
            for number, parameter in enumerate(parameters):
                parameter[:] = saved[f"arr_{number}"]
        print(f"going on after epoch {epoch}", flush=True)
    for array in (*parameters, velocity):
        world.Bcast(array)
    return world.bcast(epoch)


def main() -> None:
    """Trains, prints loss and accuracy of each epoch from rank 0, saves the model from rank 0."""
    parser = argparse.ArgumentParser(description="Data-parallel training of a digits classifier over all ranks")
    parser.add_argument("--epochs", type=int, default=15, help="passes over the data (default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        default=os.environ.get("OUTPUT_DIRECTORY"),
        help="folder for the trained model (default: $OUTPUT_DIRECTORY; none is saved without either)",
    )
    parser.add_argument(
        "--checkpoint", type=Path, help="folder for a checkpoint after each epoch, from which a new start goes on"
    )
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error("--epochs must be at least 1")

    world = MPI.COMM_WORLD
    begun = time.monotonic()
    images, labels, test_images, test_labels = load()
    share = len(range(world.rank, len(images), world.size))
    print(f"rank {world.rank} of {world.size} on {host_name()} with {share} of {len(images)} images", flush=True)
    world.Barrier()

    parameters = initial_parameters(images.shape[1], 10)
    velocity = np.zeros(sum(parameter.size for parameter in parameters))
    reached = 0.0
    done = go_on(world, parameters, velocity, arguments.checkpoint) if arguments.checkpoint else 0
    first = time.monotonic()
    for epoch in range(done + 1, arguments.epochs + 1):
        loss = train_epoch(world, parameters, velocity, images, labels, epoch)
        if world.rank == 0:
            reached = accuracy(parameters, test_images, test_labels)
            print(f"epoch {epoch:2} of {arguments.epochs}: loss {loss:.4f}, accuracy {reached:.4f}", flush=True)
            remaining = (time.monotonic() - first) / (epoch - done) * (arguments.epochs - epoch)
            report(100 * epoch // arguments.epochs, remaining, {"loss": loss, "accuracy": reached})
            if arguments.checkpoint:
                save_checkpoint(parameters, velocity, epoch, arguments.checkpoint)
    if world.rank == 0:
        if arguments.output:
            print(f"model saved to {save(parameters, arguments.output)}", flush=True)
        seconds = time.monotonic() - begun
        print(f"trained on {world.size} ranks in {seconds:.1f} s, final accuracy {reached:.4f}", flush=True)
