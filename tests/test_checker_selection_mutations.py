"""Claims of selections that were tampered with: each is refused, or still true."""

from __future__ import annotations

import copy
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any

import pytest
from claimed_selections import Case, Claims, assert_true, honest, refusal

from karenina.checker.selection_form import BELOW, DONE, SIMILAR, TWO
from karenina.selection import CRITERIA, SelectionSettings

Mutation = Callable[[random.Random, Case], None]


def other(rng: random.Random, values: list[Any], value: Any) -> Any:
    return rng.choice([candidate for candidate in values if candidate != value])


def a_step(rng: random.Random, case: Case) -> Claims:
    step: Claims = rng.choice(case.claims["iterations"])
    return step


def gone(case: Case) -> list[str]:
    return [name for name in case.names if name not in case.claims["survivors"]]


def swap_everywhere(rng: random.Random, case: Case) -> None:
    """A survivor and a removed model change places in all claims; scores say nothing."""
    first, second = rng.choice(case.claims["survivors"]), rng.choice(gone(case))
    text = json.dumps(case.claims).replace(f'"{first}"', '"?"').replace(f'"{second}"', f'"{first}"')
    case.claims = json.loads(text.replace('"?"', f'"{second}"'))
    forget_scores(case)


def forget_scores(case: Case) -> None:
    for part in (*case.claims["iterations"], case.claims["ending"]):
        part["scores"] = {name: [0.0, None] for name in part["scores"]}


def swap_survivor(rng: random.Random, case: Case) -> None:
    case.claims["survivors"][0] = rng.choice(gone(case))


def drop_survivor(_: random.Random, case: Case) -> None:
    case.claims["survivors"].pop()


def drop_removal(rng: random.Random, case: Case) -> None:
    removed = a_step(rng, case)["removed"]
    removed.remove(rng.choice(removed))


def spare(rng: random.Random, case: Case) -> None:
    """A model of the last iteration stays after all, and all says so."""
    step, ending = case.claims["iterations"][-1], case.claims["ending"]
    name = step["removed"].pop(rng.randrange(len(step["removed"])))
    case.claims["survivors"].append(name)
    ending["scores"][name] = []
    forget_scores(case)


def remove_more(rng: random.Random, case: Case) -> None:
    """A survivor goes in the last iteration, and all says so."""
    name = case.claims["survivors"].pop(rng.randrange(len(case.claims["survivors"])))
    case.claims["iterations"][-1]["removed"].append(name)
    del case.claims["ending"]["scores"][name]
    forget_scores(case)


def drop_iteration(rng: random.Random, case: Case) -> None:
    case.claims["iterations"].remove(a_step(rng, case))


def repeat_iteration(rng: random.Random, case: Case) -> None:
    case.claims["iterations"].append(copy.deepcopy(a_step(rng, case)))


def merge_iterations(_: random.Random, case: Case) -> None:
    """Two iterations as one."""
    steps = case.claims["iterations"]
    steps[:2] = [steps[0] | {"removed": steps[0]["removed"] + steps[1]["removed"]}]


def turn_round(_: random.Random, case: Case) -> None:
    """The iterations in the reverse order, each with the models then left."""
    left, steps = set(case.names), case.claims["iterations"]
    for step in reversed(steps):
        step["scores"] = {name: [0.0, None] for name in case.names if name in left}
        left -= set(step["removed"])
    steps.reverse()


def changed(key: str, values: list[Any]) -> Mutation:
    def mutate(rng: random.Random, case: Case) -> None:
        settings = case.claims["settings"]
        settings[key] = other(rng, values, settings[key])

    mutate.__name__ = f"other_{key}"
    return mutate


def other_reason(rng: random.Random, case: Case) -> None:
    case.claims["ending"]["because"] = other(rng, [BELOW, SIMILAR, TWO, DONE], case.claims["ending"]["because"])


def claim_certain(rng: random.Random, case: Case) -> None:
    parts = [*case.claims["iterations"], case.claims["ending"], case.claims["recommended"]]
    rng.choice([part for part in parts if not part["certified"]])["certified"] = True


def claim_less(rng: random.Random, case: Case) -> None:
    parts = [*case.claims["iterations"], case.claims["ending"], case.claims["recommended"]]
    rng.choice([part for part in parts if part["certified"]])["certified"] = False


def recommend_another(rng: random.Random, case: Case) -> None:
    recommended = case.claims["recommended"]
    recommended["model"] = other(rng, case.claims["survivors"], recommended["model"])


def recommend_the_removed(rng: random.Random, case: Case) -> None:
    case.claims["recommended"]["model"] = rng.choice(gone(case))


def move_score(rng: random.Random, case: Case) -> None:
    scores = rng.choice([*case.claims["iterations"], case.claims["ending"]])["scores"]
    ends = scores[rng.choice(list(scores))]
    ends[rng.randrange(2)] += rng.choice([-1, 1]) * rng.choice([1e-4, 0.1, 1.0])
    ends[0] = max(0.0, ends[0])


def widen(width: float) -> Mutation:
    def mutate(rng: random.Random, case: Case) -> None:
        forget_scores(case)
        for i, j in combinations(range(len(case.names)), 2):
            case.lower[i][j] = case.lower[j][i] = max(0.0, case.lower[i][j] - width * rng.random())
            case.upper[i][j] = case.upper[j][i] = case.upper[i][j] + width * rng.random()

    mutate.__name__ = f"bounds_wider_by_{width}"
    return mutate


def move_bounds(rng: random.Random, case: Case) -> None:
    """One pair's bounds are those of another value."""
    forget_scores(case)
    i, j = rng.sample(range(len(case.names)), 2)
    value = rng.uniform(0, 20)
    case.lower[i][j] = case.lower[j][i] = case.upper[i][j] = case.upper[j][i] = value


def swap_names(rng: random.Random, case: Case) -> None:
    """The bounds are those of other models than is said."""
    forget_scores(case)
    i, j = rng.sample(range(len(case.names)), 2)
    case.names[i], case.names[j] = case.names[j], case.names[i]


MUTATIONS: list[Mutation] = [
    swap_everywhere, swap_survivor, drop_survivor, drop_removal, spare, remove_more, drop_iteration, repeat_iteration,
    merge_iterations, turn_round, changed("criterion", list(CRITERIA)), changed("percent", [5, 10, 30, 50, 75]),
    changed("iterations", [None, 0, 1, 2, 3]), changed("similar", [0.0, 0.1, 1.0, 4.0]),
    changed("stop_below", [None, 0.0, 1.0, 3.0, 9.0]), other_reason, claim_certain, claim_less, recommend_another,
    recommend_the_removed, move_score, widen(0.1), widen(0.5), widen(3.0), move_bounds, swap_names,
]  # fmt: skip
ALWAYS_REFUSED = {
    "swap_survivor", "drop_survivor", "drop_removal", "drop_iteration", "repeat_iteration", "recommend_the_removed",
}  # fmt: skip
NEVER_REFUSED = {"claim_less"}


def test_mutated_claims_are_refused_or_still_true(capsys: pytest.CaptureFixture[str]) -> None:
    refused: Counter[str] = Counter()
    harmless: Counter[str] = Counter()
    cases = [honest(random.Random(seed), 8, 4)[1] for seed in range(40)]
    for seed, (case, mutate) in enumerate(product(cases, MUTATIONS)):
        rng, mutated = random.Random(seed), copy.deepcopy(case)
        try:
            mutate(rng, mutated)
        except (IndexError, TypeError):  # nothing there to change
            continue
        if refusal(mutated):
            refused[mutate.__name__] += 1
        else:
            assert_true(mutated, rng, 12)
            harmless[mutate.__name__] += 1
    with capsys.disabled():
        print(f"\nselections: {refused.total()} mutations refused, {harmless.total()} harmless (still true)")
    assert refused.total() > 400
    assert not ALWAYS_REFUSED & set(harmless)
    assert not NEVER_REFUSED & set(refused)
    assert set(refused) | NEVER_REFUSED == {mutate.__name__ for mutate in MUTATIONS}


def nodes(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything inside plain data."""
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield (*path, key)
        yield from nodes(data[key], (*path, key))


JUNK: list[Any] = [
    None, True, False, 0, -1, 3, 10**5000, 0.5, -0.0, -1.5, 1e308, math.nan, math.inf, -math.inf,
    "", "m0", "m99", "max", "\x1b[31m", "\ud800", b"", (),
    [], [None], ["m0"], ["m0", "m0"], [0.0, math.nan], [0.0], [[]], {}, {"m0": [0, 1]}, {"a": {}},
]  # fmt: skip


def test_malformed_claims_are_refused_and_nothing_else_happens(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[bool] = Counter()
    for seed in range(2):
        rng = random.Random(seed)
        _, case = honest(rng, 6, 5, SelectionSettings("combined", iterations=2, stop_below=0.0))
        for path in nodes(case.claims):
            for junk in [*JUNK, KeyError]:
                mutated = copy.deepcopy(case)
                place = mutated.claims
                for key in path[:-1]:
                    place = place[key]
                if junk is KeyError:
                    del place[path[-1]]
                else:
                    place[path[-1]] = junk
                reason = refusal(mutated)
                counts[bool(reason)] += 1
                assert "\x1b" not in reason
                if not reason:
                    assert_true(mutated, rng, 3)
    with capsys.disabled():
        print(f"\nselections: {counts[True]} malformed refused, {counts[False]} harmless (still true)")
    assert counts[True] > 2000


@pytest.mark.parametrize("junk", [None, [], "selection", 3, {"settings": {}}, math.nan])
def test_data_of_another_kind_is_refused(junk: Any) -> None:
    _, case = honest(random.Random(1), 4, 4)
    case.claims = junk
    assert "the selection is not made of settings" in refusal(case)


def test_more_than_the_claims_is_refused() -> None:
    _, case = honest(random.Random(1), 4, 4)
    case.claims["guarantee"] = 0.0
    assert "the selection is not made of settings" in refusal(case)


def test_scores_are_those_of_the_models_left() -> None:
    _, case = honest(random.Random(1), 5, 5, SelectionSettings(iterations=1))
    case.claims["ending"]["scores"][gone(case)[0]] = [0.0, None]
    assert refusal(case) == "the ending does not give the scores of the models left"
