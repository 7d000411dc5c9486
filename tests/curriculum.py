"""The systems of the sources that the course teaches, and where a notebook runs each: `make covered` prints the list.

A code cell says what it measures in its metadata: {"minirl": {"covers": ["L17.4"]}}.
"""

import json
from pathlib import Path

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"

SOURCES = {
    "L17": "CS336 lecture 17, the mechanics of policy gradient",
    "L16": "CS336 lecture 16, from human feedback to verifiable rewards",
    "S0": "a survey of reinforcement learning for reasoning and tools",
    "S4": "a survey of where reinforcement learning for reasoning falls short",
}

SYSTEMS = {
    "L17.1": "a language model as an agent",
    "L17.2": "the policy gradient, and where it gets stuck",
    "L17.3": "baselines leave the expectation alone",
    "L17.4": "the optimal baseline",
    "L17.5": "the advantage",
    "L17.6": "the group as a baseline (GRPO)",
    "L17.7": "the sorting task",
    "L17.8": "exact-match reward",
    "L17.9": "position reward",
    "L17.10": "inclusion and ordering reward",
    "L17.11": "the loophole in the reward",
    "L17.12": "the sorting model",
    "L17.13": "samples, rewards and log-probs as tensors",
    "L17.14": "deltas: raw, centred, normalised, max-only",
    "L17.15": "freezing the old policy",
    "L17.16": "losses: naive, unclipped, clipped",
    "L17.17": "estimators of the KL penalty",
    "L17.18": "the full loop and its three time scales",
    "L17.19": "the lecture's experiments",
    "L17.20": "loss curves mislead",
    "L17.21": "partial credit is double-edged",
    "L17.22": "the systems around a real run",
    "L16.1": "DPO",
    "L16.2": "SimPO and length-normalised DPO",
    "L16.3": "over-optimising a proxy reward",
    "L16.4": "calibration before and after",
    "L16.5": "PPO",
    "L16.6": "value functions and GAE",
    "L16.7": "reward shaping with a KL penalty",
    "L16.8": "RLOO",
    "L16.9": "GRPO's two biases",
    "L16.10": "Dr. GRPO",
    "L16.11": "rejection-sampling fine-tuning and expert iteration",
    "L16.12": "outcome and process rewards",
    "L16.13": "R1-Zero",
    "L16.14": "the R1 pipeline",
    "L16.15": "a reward for one language",
    "L16.16": "distilling a reasoner",
    "L16.17": "search at test time",
    "L16.18": "Kimi k1.5's loss",
    "L16.19": "Kimi k1.5's length reward",
    "L16.20": "Kimi k1.5's curriculum",
    "L16.21": "Qwen3's data filter",
    "L16.22": "thinking modes and thinking budgets",
    "L16.23": "weighing several rewards",
    "L16.24": "rollout workers and learners",
    "S0.1": "selecting and cleaning data",
    "S0.2": "DAPO",
    "S0.3": "VAPO",
    "S0.4": "StarPO and StarPO-S",
    "S0.5": "token or sample loss",
    "S0.6": "discounting across turns",
    "S0.7": "warm-up",
    "S0.8": "a code interpreter as a tool",
    "S0.9": "masking what a tool wrote",
    "S0.10": "retrieval as a tool",
    "S0.11": "caches and asynchronous sandboxes",
    "S0.12": "hyperparameters and their sensitivity",
    "S0.13": "fine-tuning first, or not",
    "S0.14": "LoRA",
    "S4.1": "GPG",
    "S4.2": "the limit that pass@k shows",
    "S4.3": "EMPO",
    "S4.4": "TTRL",
    "S4.5": "minimising entropy",
    "S4.6": "learning from one problem",
    "S4.7": "minimising entropy on one prompt",
    "S4.8": "spurious rewards",
    "S4.9": "to divide by the std or not",
}


def load(path: Path) -> dict:
    return json.loads(path.read_text("utf-8"))


def covers(cell: dict) -> list[str]:
    """The ids that a cell says it measures."""
    return cell["metadata"].get("minirl", {}).get("covers", [])


def covered() -> dict[str, list[str]]:
    """For each id the executed code cells that measure it, as notebook#cell."""
    found = {system: [] for system in SYSTEMS}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in load(path)["cells"]:
            if cell["cell_type"] == "code" and cell["execution_count"]:
                for system in covers(cell):
                    found.setdefault(system, []).append(f"{path.stem}#{cell['id']}")
    return found


def main() -> None:
    found = covered()
    for source, title in SOURCES.items():
        systems = [system for system in SYSTEMS if system.split(".")[0] == source]
        print(f"{title}: {sum(bool(found[system]) for system in systems)} of {len(systems)}")
        for system in systems:
            print(f"  {system:<7}{SYSTEMS[system]:<52}{', '.join(found[system]) or '-'}")


if __name__ == "__main__":
    main()
