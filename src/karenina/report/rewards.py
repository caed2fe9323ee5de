"""What models earned. Enters: a table of rewards, or the manifest of a population such as the zoo's. Leaves: `Rewards`.

    name,reward,good          a CSV file: the model's name as the selection has it, what it earned,
    seed_1,412.5,yes          and, if you like, whether that is good (yes or no); without such a column a
    seed_2,88.0,no            threshold may say it

The selection never sees rewards; they are for looking at what it did.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from karenina.errors import InputError
from karenina.text_file import read_text

__all__ = ["Rewards", "read_rewards", "rewards_for"]

_YES, _NO = {"yes", "true", "1", "good"}, {"no", "false", "0", "bad"}
_EXAMPLE = "the first line is name,reward or name,reward,good"
_OUTSIDE = "ood"


@dataclass(frozen=True)
class Rewards:
    """Rewards by model, and which of them are good, where that is known."""

    earned: Mapping[str, float]
    good: Mapping[str, bool]
    setting: str = "reward"  # what was measured, for the axis
    threshold: float | None = None

    def among(self, names: Sequence[str], where: str) -> Rewards:
        """Those of the named models; refuses a table that has none of them."""
        earned = {name: self.earned[name] for name in names if name in self.earned}
        if not earned:
            raise InputError(f"{where} has no reward of any model of this run, such as {names[0]!r}")
        return replace(self, earned=earned, good={name: self.good[name] for name in earned if name in self.good})


def read_rewards(path: Path, good_above: float | None = None) -> Rewards:
    """From a CSV file or a population's manifest; a threshold overrides what the file says is good."""
    text = read_text(path)
    found = _from_manifest(text, path) if text.lstrip().startswith("{") else _from_csv(text, path)
    if good_above is None:
        return found
    return replace(
        found, threshold=good_above, good={name: reward > good_above for name, reward in found.earned.items()}
    )


def rewards_for(files: Mapping[str, str], good_above: float | None = None) -> Rewards | None:
    """What is on record for models of a population that came with its rewards; None where there is no such record."""
    for manifest in dict.fromkeys(folder / "manifest.json" for f in files.values() for folder in Path(f).parents[:2]):
        try:
            found = read_rewards(manifest, good_above)
        except InputError:
            continue
        if set(files) <= set(found.earned):
            return found.among(list(files), str(manifest))
    return None


def _from_csv(text: str, path: Path) -> Rewards:
    try:
        rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"{path} is not a table of rewards: {error}") from None
    head = [title.strip().lower() for title in rows[0]] if rows else []
    if head[:1] not in (["name"], ["model"]) or "reward" not in head:
        raise InputError(f"{path} is not a table of rewards: {_EXAMPLE}")
    column, verdict = head.index("reward"), head.index("good") if "good" in head else None
    earned: dict[str, float] = {}
    good: dict[str, bool] = {}
    for number, row in enumerate(rows[1:], 2):
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(head):
            raise InputError(f"{path}: line {number} has {len(row)} cells where the first line has {len(head)}")
        if row[0] in earned:
            raise InputError(f"{path}: line {number} names {row[0]!r} a second time")
        earned[row[0]] = _reward(row[column], f"{path}: line {number}")
        if verdict is not None:
            good[row[0]] = _verdict(row[verdict], f"{path}: line {number}")
    if not earned:
        raise InputError(f"{path} holds no rewards: {_EXAMPLE}, and each model is a line after it")
    return Rewards(earned, good)


def _reward(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: the reward {cell!r} is not a finite number")
    return value


def _verdict(cell: str, where: str) -> bool:
    word = cell.strip().lower()
    if word not in _YES | _NO:
        raise InputError(f"{where}: good must be yes or no, not {cell!r}")
    return word in _YES


def _from_manifest(text: str, path: Path) -> Rewards:
    try:
        content: Any = json.loads(text)
        policies = {str(name): policy["rewards"] for name, policy in content["policies"].items()}
        settings = list(next(iter(policies.values())))
        setting = _OUTSIDE if _OUTSIDE in settings else settings[-1]
        earned = {name: float(rewards[setting]["mean"]) for name, rewards in policies.items()}
        good = {name: bool(rewards[setting]["good"]) for name, rewards in policies.items()}
        threshold = float(content["evaluation"]["threshold"])
    except (
        ArithmeticError,
        AttributeError,
        IndexError,
        KeyError,
        RecursionError,
        StopIteration,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(f"{path} is neither a table of rewards ({_EXAMPLE}) nor a population's manifest") from error
    return Rewards(earned, good, f"mean reward, {setting}", threshold)
