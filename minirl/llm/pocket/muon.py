"""Muon: momentum whose matrix updates are orthogonalised, so that every direction of a weight matrix moves alike.

Left out: the bfloat16 iterations and the sharding that pay only for large matrices, and weight decay.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def orthogonalized(matrix: Float[Tensor, "rows columns"], iterations: int = 5) -> Float[Tensor, "rows columns"]:
    """About U·Vᵀ for matrix = U·S·Vᵀ, by X ← aX + (bA + cA²)X with A = XXᵀ (Newton–Schulz; K. Jordan, "Muon", 2024).

    The coefficients make small singular values grow fast; they end near 1, between about 0.7 and 1.2.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    flip = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if flip else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if flip else x


class Muon(torch.optim.Optimizer):
    """m ← μm + g;  W ← W − lr · √max(1, rows/columns) · orthogonalized(g + μm)  (Nesterov; arXiv:2502.16982)."""

    def __init__(self, matrices, lr: float = 2e-2, momentum: float = 0.95):
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                memory = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
                memory.mul_(group["momentum"]).add_(matrix.grad)
                update = orthogonalized(matrix.grad + group["momentum"] * memory)
                scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
                matrix.sub_(update, alpha=group["lr"] * scale)
