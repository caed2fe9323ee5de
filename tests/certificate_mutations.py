"""Certificates made wrong in every way there is.

Enters: a good one. Leaves: files with one thing changed, and a word that says what.
"""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from certificates import Made, chain_from, packed, with_digests

from karenina.checker import Refused
from karenina.checker.pairs import Condition, Distance, Pair
from karenina.checker.reading import coarse_neurons
from karenina.checker.tree import BATCH, CUT, FINE, LEAF

Text = dict[str, Any]
Members = dict[str, bytes]
Change = Callable[[Text, Members, random.Random], None]


# What is changed in the text.


def _claim(text: Text, rng: random.Random) -> Any:
    return rng.choice(text["pairs"])


def lower_upper(text: Text, _: Members, rng: random.Random) -> None:
    claim = _claim(text, rng)
    claim["upper"] = claim["lower"] + rng.random() * 0.9 * (claim["upper"] - claim["lower"]) * rng.choice([0, 1])


def upper_below_what_is_attained(text: Text, _: Members, rng: random.Random) -> None:
    """And the lower end with it, so that nothing but the nodes can tell."""
    claim = _claim(text, rng)
    claim["upper"], claim["lower"], claim["witnesses"] = claim["lower"] * rng.choice([0.999999, 0.9, 0.0]), 0.0, []


def raise_upper(text: Text, _: Members, rng: random.Random) -> None:
    _claim(text, rng)["upper"] *= 1 + rng.random()


def raise_lower(text: Text, _: Members, rng: random.Random) -> None:
    claim = _claim(text, rng)
    claim["lower"] += max(rng.random() * (claim["upper"] - claim["lower"]), 1e-9)


def lower_lower(text: Text, _: Members, rng: random.Random) -> None:
    _claim(text, rng)["lower"] *= rng.random()


def move_witness(text: Text, _: Members, rng: random.Random) -> None:
    witness = rng.choice(_claim(text, rng)["witnesses"] or [{"x": [0.0]}])
    axis = rng.randrange(len(witness["x"]))
    witness["x"][axis] += rng.choice([-1, 1]) * rng.choice([1e-12, 1e-3, 0.5, 3.0, 1e300])


def other_box_of_witness(text: Text, _: Members, rng: random.Random) -> None:
    for witness in _claim(text, rng)["witnesses"]:
        witness["box"] += rng.choice([-1, 1, 7])


def drop_witness(text: Text, _: Members, rng: random.Random) -> None:
    claim = _claim(text, rng)
    claim["witnesses"] = claim["witnesses"][1:]


def change_choices(text: Text, _: Members, rng: random.Random) -> None:
    claim = _claim(text, rng)
    way = rng.randrange(4)
    if way == 0:
        claim["choices"] = claim["choices"][1:]
    elif way == 1:
        claim["choices"].append(0)
    else:
        place = rng.randrange(len(claim["choices"]))
        claim["choices"][place] = rng.choice([1 - claim["choices"][place], -1, 5])


def shift_box(text: Text, _: Members, rng: random.Random) -> None:
    box, axis = rng.choice(text["domain"]), rng.randrange(len(text["domain"][0]["lower"]))
    by = rng.choice([-1, 1]) * rng.choice([1e-3, 0.1, 1.0])
    box["lower"][axis], box["upper"][axis] = box["lower"][axis] + by, box["upper"][axis] + by


def enlarge_box(text: Text, _: Members, rng: random.Random) -> None:
    box, axis = rng.choice(text["domain"]), rng.randrange(len(text["domain"][0]["lower"]))
    box["upper"][axis] += rng.choice([1e-9, 1e-3, 0.1, 2.0])
    box["lower"][axis] -= rng.choice([0.0, 0.1])


def shrink_box(text: Text, _: Members, rng: random.Random) -> None:
    box, axis = rng.choice(text["domain"]), rng.randrange(len(text["domain"][0]["lower"]))
    box["upper"][axis] -= rng.choice([1e-9, 1e-3, 0.1, 9.0])


def add_box(text: Text, _: Members, rng: random.Random) -> None:
    box = copy.deepcopy(text["domain"][0])
    box["upper"] = [value + 1 for value in box["upper"]]
    text["domain"].insert(rng.randrange(2), box)
    if rng.random() < 0.5:
        for claim in text["pairs"]:
            claim["choices"].append(0)


def drop_box(text: Text, _: Members, rng: random.Random) -> None:
    text["domain"].pop(rng.randrange(len(text["domain"])))
    if rng.random() < 0.5:
        for claim in text["pairs"]:
            claim["choices"] = claim["choices"][1:]


def other_distance(text: Text, _: Members, rng: random.Random) -> None:
    text["distance"]["name"] = rng.choice(["l1", "linf", "class", "c-distance", "l2", None, 3])


def change_condition(text: Text, _: Members, rng: random.Random) -> None:
    conditions = text["distance"]["conditions"]
    if not conditions:
        conditions.append({"text": "y0 >= 0", "rows": [[1.0] * 2], "offsets": [0.0]})
        return
    condition, way = rng.choice(conditions), rng.randrange(5)
    if way == 0:
        condition["offsets"][0] += rng.choice([-0.3, 0.3, 1e-6])
    elif way == 1:
        condition["rows"][0][0] *= rng.choice([-1, 0, 1.01])
    elif way == 2:
        conditions.remove(condition)
    elif way == 3:
        condition["offsets"].append(0.0)
    else:
        condition["rows"].append([0.0, 1.0])


# What is changed in the networks.


def _weight(text: Text, members: Members, rng: random.Random) -> None:
    name = f"networks/{rng.randrange(len(text['networks']))}"
    values = np.frombuffer(members[name], "<f8").copy()
    place = rng.randrange(len(values))
    values[place] = rng.choice([-values[place], values[place] * 1.01, values[place] + 1e-3, 0.0, 1e200, np.nan, np.inf])
    members[name] = values.tobytes()


def one_weight(text: Text, members: Members, rng: random.Random) -> None:
    _weight(text, members, rng)


def one_weight_and_the_digest(text: Text, members: Members, rng: random.Random) -> None:
    before = members.copy()
    while True:
        _weight(text, members, rng)
        try:
            with_digests(text, members)
        except Refused:  # no finite number: any digest will do
            members.update(before)
            continue
        return


def swap_networks(text: Text, members: Members, rng: random.Random) -> None:
    members["networks/0"], members["networks/1"] = members["networks/1"], members["networks/0"]
    if rng.random() < 0.7:
        with_digests(text, members)


def same_network_twice(text: Text, members: Members, _: random.Random) -> None:
    members["networks/1"] = members["networks/0"]
    with_digests(text, members)


def other_activation(text: Text, members: Members, rng: random.Random) -> None:
    runs = rng.choice(text["networks"])["layers"][0]["activations"]
    way = rng.randrange(6)
    if way == 0:
        runs[0].update(name="leaky_relu", parameters=[0.5])
    elif way == 1:
        runs[0].update(name="abs", parameters=[])
    elif way == 2:
        runs[0]["end"] -= 1
    elif way == 3:
        runs.append(dict(runs[0]))
    elif way == 4:
        runs[0]["parameters"] = [1.0]
    else:
        runs[0]["name"] = rng.choice(["sine", None, 4])
    if rng.random() < 0.8 and way < 2:
        with_digests(text, members)


def other_shape(text: Text, _: Members, rng: random.Random) -> None:
    layer = rng.choice(rng.choice(text["networks"])["layers"])
    layer[rng.choice(["neurons", "inputs"])] = rng.choice([0, -1, 1, 2**40, "2", 2.5, None, True])


def drop_layer(text: Text, _: Members, rng: random.Random) -> None:
    layers = rng.choice(text["networks"])["layers"]
    layers.pop(rng.randrange(len(layers)))


# What is changed in the selection.


def other_selection(text: Text, _: Members, rng: random.Random) -> None:
    selection = text["selection"]
    ways: list[Callable[[], Any]] = [
        lambda: selection["settings"].update(percent=rng.choice([1.0, 40.0, 75.0, "25", None, 0, 100, True])),
        lambda: selection["settings"].update(criterion=rng.choice(["max", "combined", "percentile", "min", 3])),
        lambda: selection["settings"].update(iterations=rng.choice([0, 1, 2, -1, 1.5, "1", 10**400])),
        lambda: selection["settings"].update(stop_below=rng.choice([0.0, 1.0, 2.5, 100.0, -1.0, "1"])),
        lambda: selection["settings"].update(similar=rng.choice([0.1, 1.0, 100.0, None, "0"])),
        lambda: selection["survivors"].reverse(),
        lambda: selection["survivors"].pop(),
        lambda: selection["survivors"].__setitem__(0, rng.choice([n["name"] for n in text["networks"]])),
        lambda: selection["recommended"].update(model=rng.choice([n["name"] for n in text["networks"]])),
        lambda: rng.choice(selection["iterations"])["removed"].append(rng.choice(text["networks"])["name"]),
        lambda: rng.choice(selection["iterations"]).update(removed=[rng.choice(text["networks"])["name"]]),
        lambda: rng.choice(selection["iterations"]).update(removed=[]),
        lambda: selection["iterations"].pop(rng.randrange(len(selection["iterations"]))),
        lambda: selection["iterations"].append(copy.deepcopy(selection["iterations"][-1])),
        lambda: selection["iterations"].reverse(),
        lambda: rng.choice(selection["iterations"]).update(certified=rng.choice([False, 1, None, "true"])),
        lambda: selection["ending"].update(
            because=rng.choice(["all iterations are done", "no score is above stop_below", "two models are left", "so"])
        ),
        lambda: selection.pop(rng.choice(list(selection))),
        lambda: rng.choice(list(selection["ending"]["scores"].values())).__setitem__(0, 9.0),
        lambda: rng.choice(list(rng.choice(selection["iterations"])["scores"].values())).__setitem__(1, 0.0),
        lambda: text.update(selection=rng.choice([[], 3, "none", {}])),
        lambda: text["networks"][0].update(name=text["networks"][1]["name"]),
        lambda: _swap_names(text),
        lambda: text["pairs"].pop(),
    ]
    rng.choice(ways)()


def _swap_names(text: Text) -> None:
    first, second = text["networks"][0], text["networks"][-1]
    first["name"], second["name"] = second["name"], first["name"]


# What is changed in the form.


def drop_key(text: Text, _: Members, rng: random.Random) -> None:
    holder = rng.choice(list(_holders(text)))
    holder.pop(rng.choice(list(holder)))


def other_type(text: Text, _: Members, rng: random.Random) -> None:
    holder = rng.choice([holder for holder in _holders(text) if holder is not text])
    holder[rng.choice(list(holder))] = rng.choice(
        [None, True, "1", "nan", [], {}, -1, 1e308, 10**400, float("nan"), float("inf"), [[[]]], "\x1b[31m", -0.0]
    )


def _holders(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        if data:
            yield data
        data = list(data.values())
    if isinstance(data, list):
        for each in data:
            yield from _holders(each)


def drop_member(_: Text, members: Members, rng: random.Random) -> None:
    members.pop(rng.choice(list(members)))


def swap_pairs(text: Text, members: Members, rng: random.Random) -> None:
    """The nodes of two pairs, or the numbers of a pair."""
    pairs = [name for name in members if name.startswith("pairs/")]
    if len(pairs) > 1:
        first, second = rng.sample(pairs, 2)
        members[first], members[second] = members[second], members[first]
    else:
        claim = text["pairs"][0]
        claim["first"], claim["second"] = rng.choice([(1, 0), (0, 0), (1, 1), (0, 2), (-1, 0), (0, 10**30)])


def claim_twice(text: Text, _: Members, rng: random.Random) -> None:
    text["pairs"].append(copy.deepcopy(rng.choice(text["pairs"])))
    text["pairs"][-1]["upper"] *= 0.5


def claim_nothing(text: Text, _: Members, rng: random.Random) -> None:
    text[rng.choice(["pairs", "networks", "domain"])] = []


def other_format(text: Text, _: Members, rng: random.Random) -> None:
    text["format"] = rng.choice(["karenina certificate 2", "", None, 1])


TEXT: dict[str, Change] = {
    "upper lowered": lower_upper,
    "upper below what is attained": upper_below_what_is_attained,
    "upper raised": raise_upper,
    "lower raised": raise_lower,
    "lower lowered": lower_lower,
    "witness moved": move_witness,
    "witness in another box": other_box_of_witness,
    "witness dropped": drop_witness,
    "choices changed": change_choices,
    "box shifted": shift_box,
    "box enlarged": enlarge_box,
    "box shrunk": shrink_box,
    "box added": add_box,
    "box dropped": drop_box,
    "other distance": other_distance,
    "condition changed": change_condition,
    "one weight": one_weight,
    "one weight, with its digest": one_weight_and_the_digest,
    "networks swapped": swap_networks,
    "one network twice": same_network_twice,
    "other activation": other_activation,
    "other shape": other_shape,
    "layer dropped": drop_layer,
    "key dropped": drop_key,
    "other type": other_type,
    "member dropped": drop_member,
    "pairs swapped": swap_pairs,
    "claimed twice": claim_twice,
    "nothing claimed": claim_nothing,
    "other format": other_format,
}


def changed_text(good: Made, change: Change, rng: random.Random) -> bytes:
    text, members = good.text, good.members
    change(text, members, rng)
    return packed(text, members)


# What is changed in the nodes.


def places(data: bytes, pair: Pair, choices: list[int]) -> Iterator[tuple[str, int, int]]:
    """What stands where in the nodes of a pair: a word, the first byte, how many."""
    at, coarse, neurons = 0, len(coarse_neurons(pair.bounder.chain)[0]), pair.bounder.neurons
    for question in pair.questions(1.0, choices):
        rows, open_ = len(question.goal.offsets), 1
        while open_:
            count = min(BATCH, open_)
            kinds = data[at : at + count]
            split, leaves = sum(k <= CUT for k in kinds), sum(k in (CUT, LEAF) for k in kinds)
            fine = kinds.count(FINE)
            parts = [
                ("kind", count, 1),
                ("axis", split, 2),
                ("slope", leaves * coarse, 1),
                ("multiplier", leaves * rows, 4),
            ]
            parts += [("fine slope", fine * neurons, 8), ("coefficient", fine * neurons, 8), ("price", fine * rows, 8)]
            for word, number, size in parts:
                for _ in range(number):
                    yield word, at, size
                    at += size
            open_ += 2 * split - count
    assert at == len(data)


def changed_nodes(good: Made, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Every kind of number changed, some bytes dropped, added, doubled."""
    text, members = good.text, good.members
    chains = [chain_from(n["layers"], members[f"networks/{k}"]) for k, n in enumerate(text["networks"])]
    claim = rng.choice(text["pairs"])
    name = f"pairs/{claim['first']}-{claim['second']}"
    data = members[name]
    boxes = [(np.array(box["lower"]), np.array(box["upper"])) for box in text["domain"]]
    conditions = tuple(Condition(np.array(c["rows"]), np.array(c["offsets"])) for c in text["distance"]["conditions"])
    pair = Pair(chains[claim["first"]], chains[claim["second"]], boxes, Distance(text["distance"]["name"], conditions))
    by_word: dict[str, list[tuple[int, int]]] = {}
    for word, at, size in places(data, pair, claim["choices"]):
        by_word.setdefault(word, []).append((at, size))
    for word, where in by_word.items():
        at, size = rng.choice(where)
        yield (
            f"{word} changed",
            packed(text, {**members, name: data[:at] + _other(data[at : at + size], rng) + data[at + size :]}),
        )
        yield f"{word} dropped", packed(text, {**members, name: data[:at] + data[at + size :]})
        yield f"{word} doubled", packed(text, {**members, name: data[: at + size] + data[at:]})
    cut = rng.randrange(len(data))
    for word, nodes in (
        ("nodes cut short", data[:cut]),
        ("nodes cut at the front", data[cut:]),
        ("nodes added", data + bytes(rng.randrange(4) for _ in range(rng.randrange(1, 9)))),
        ("nodes doubled", data + data),
        ("nodes of one leaf", bytes([LEAF]) + bytes(200)),
        ("nodes of random bytes", rng.randbytes(len(data))),
        ("no nodes", b""),
    ):
        yield word, packed(text, {**members, name: nodes})


def _other(number: bytes, rng: random.Random) -> bytes:
    if len(number) == 1:
        return bytes([rng.choice([(number[0] + 1) % 256, rng.randrange(256), 0, 255, rng.randrange(4)])])
    if len(number) == 2:
        return struct.pack("<H", rng.choice([0, 1, 2, 3, 65535, rng.randrange(40)]))
    form = "<f" if len(number) == 4 else "<d"
    value = struct.unpack(form, number)[0]
    return struct.pack(form, rng.choice([0.0, -1.0, 1.0, value * 1.5, -value, 1e30, float("nan"), float("inf"), 1e-40]))


# What is changed in the file.


def changed_file(good: Made, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    data = packed(good.text, good.members, deflate=rng.random() < 0.5)
    at = rng.randrange(len(data))
    flipped = bytearray(data)
    flipped[at] ^= 1 << rng.randrange(8)
    yield "bit flipped", bytes(flipped)
    yield "file cut short", data[:at]
    yield "file cut at the front", data[at:]
    yield "bytes dropped", data[:at] + data[at + rng.randrange(1, 9) :]
    yield "bytes added", data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
