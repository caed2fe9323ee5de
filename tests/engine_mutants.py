"""The engine broken on purpose, in one place at a time.

Each mutant is a line of the engine's source and what stands there instead, with the files of tests that should notice.
`caught_by` copies the package, makes the change, and runs those tests against the copy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import karenina

__all__ = ["CONTROL", "MUTANTS", "Mutant", "caught_by"]

PACKAGE = Path(karenina.__file__).parent
TESTS = Path(__file__).parent
LONGEST = 1500  # seconds; compiling alone takes a minute


@dataclass(frozen=True)
class Mutant:
    """In engine/`file`, `right` (which stands there once) becomes `wrong`."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "a sign: the chord's intercept",
        "lines.py",
        "lines[chord + 3, n] = -bend * share * below",
        "lines[chord + 3, n] = bend * share * below",
        ("test_lines.py",),
    ),
    Mutant(
        "a slope above 1 where a line turns about a kink",
        "lines.py",
        "= min(at_left, at_right), max(at_left, at_right)",
        "= min(at_left, at_right), 1.1 * max(at_left, at_right)",
        ("test_lines.py",),
    ),
    Mutant(
        "tanh's tangent in the wrong place",
        "lines.py",
        "z, rise = 0.5 / scale * math.log1p(2 * root / (1 - root)), scale * root",
        "z, rise = 0.6 / scale * math.log1p(2 * root / (1 - root)), scale * root",
        ("test_lines.py",),
    ),
    Mutant(
        "a turned line that forgets the right end",
        "lines.py",
        "value = curve[1, n] - slope * high",
        "value = most",
        ("test_lines.py",),
    ),
    Mutant(
        "eight boxes: a sign, the chord's intercept",
        "abreast_lines.py",
        "add = -rise * share * below",
        "add = rise * share * below",
        ("test_abreast.py",),
    ),
    Mutant(
        "eight boxes: tanh's tangent in the wrong place",
        "abreast_lines.py",
        "z, rise = _artanh(root) / scale, scale * root",
        "z, rise = 1.1 * _artanh(root) / scale, scale * root",
        ("test_abreast.py",),
    ),
    Mutant(
        "eight boxes: tanh off in the tenth digit",
        "abreast_lines.py",
        "LN_2_LOW = 1.9082149292705877e-10",
        "LN_2_LOW = 0.0",
        ("test_abreast.py",),
    ),
    Mutant(
        "eight boxes: infinite ranges of curves pass for finite ones",
        "abreast_lines.py",
        "slope = select(high - low < np.inf, slope, np.nan)",
        "slope = select(high - low < np.inf, slope, slope)",
        (
            "soundness/test_rounding_adversarial.py::test_lines_of_eight_infinite_ranges_enclose_the_activation_or_are_not_numbers",
        ),
    ),
    Mutant(
        "eight boxes: neurons of constant value are left out",
        "abreast.py",
        "if any_of(bent | shifted):",
        "if any_of(bent):",
        ("test_abreast.py",),
    ),
    Mutant(
        "eight boxes: an unrounded bound of a neuron",
        "abreast.py",
        "store(room.low, n, greater(load(room.low, n), low - net.errors[n]))",
        "store(room.low, n, greater(load(room.low, n), low + net.errors[n]))",
        ("test_rounding.py::test_bounds_of_eight_boxes_hold_in_rationals",),
    ),
    Mutant(
        "eight boxes: a bias that is off",
        "abreast.py",
        "row, after, constant = after, row, constant + part",
        "row, after, constant = after, row, constant + 0.999999 * part",
        ("test_abreast.py", "test_rounding.py"),
    ),
    Mutant(
        "eight boxes: clipping cuts off too much",
        "abreast_steps.py",
        "move = space / absolute(slope)",
        "move = 0.9 * space / absolute(slope)",
        ("test_abreast.py", "test_explore.py"),
    ),
    Mutant(
        "eight boxes: what was cut off is forgotten",
        "explore_abreast.py",
        "best.closed[0] = max(best.closed[0], target)  # what was cut off attains at most that",
        "pass",
        ("test_splits_and_prices.py::test_what_clipping_cut_off_is_not_forgotten",),
    ),
    Mutant(
        "eight boxes: one of them is lost",
        "explore_abreast.py",
        "for lane in range(count):\n        bound, axis",
        "for lane in range(min(count, 7)):\n        bound, axis",
        ("test_explore.py",),
    ),
    Mutant(
        "a chord that is off where ranges are tiny",
        "lines.py",
        "TINY = 2.0**-1074",
        "TINY = 1e-300",
        ("soundness/test_rounding_adversarial.py::test_a_chord_across_a_tiny_range_still_lies_above",),
    ),
    Mutant(
        "infinite ranges of smooth activations pass for finite ones",
        "lines.py",
        "if not np.isfinite(high - low):",
        "if high - low < 0:",
        (
            "soundness/test_rounding_adversarial.py::test_lines_over_infinite_ranges_enclose_the_activation_or_are_not_numbers",
        ),
    ),
    Mutant(
        "a swapped bound: the wrong corner of the box",
        "box.py",
        "room.corner[i] = room.upper[i] if total >= 0 else room.lower[i]",
        "room.corner[i] = room.lower[i] if total >= 0 else room.upper[i]",
        ("test_box.py",),
    ),
    Mutant(
        "a missing neuron: the last of a row's product",
        "box.py",
        "for p in range(whole, count):\n        a, first = row[order[p]], layer[order[p] * below :]",
        "for p in range(whole, count - 1):\n        a, first = row[order[p]], layer[order[p] * below :]",
        ("test_box.py",),
    ),
    Mutant("a missing bias", "box.py", "return dot(biases, row, width)", "return 0.0", ("test_box.py",)),
    Mutant(
        "the difference of near copies forgotten",
        "near.py",
        "slopes, base, c + d) + rest * intercept",
        "slopes, base, c + d)",
        ("test_box.py",),
    ),
    Mutant(
        "the wrong sign of a price",
        "dive.py",
        "constant += abs(price) * 2 * net.errors[neuron] - price * edge",
        "constant += abs(price) * 2 * net.errors[neuron] + price * edge",
        ("test_dive.py",),
    ),
    Mutant(
        "an unrounded price",
        "dive.py",
        "constant += abs(price) * 2 * net.errors[neuron] - price * edge",
        "constant -= price * edge",
        ("test_splits_and_prices.py",),
    ),
    Mutant(
        "a dropped half of a split",
        "explore.py",
        "heap.upper[slot, axis] = heap.lower[other, axis] = middle",
        "heap.upper[slot, axis] = heap.upper[other, axis] = middle",
        ("test_explore.py",),
    ),
    Mutant(
        "clipping cuts off too much",
        "explore.py",
        "room.lower[i] = max(room.lower[i], room.upper[i] - move)",
        "room.lower[i] = max(room.lower[i], room.upper[i] - 0.7 * move)",
        ("test_splits_and_prices.py",),
    ),
    Mutant(
        "clipping by slopes below 1e-290",
        "explore.py",
        "move = space / abs(slope) if slope != 0.0 else np.inf",
        "move = space / max(abs(slope), 1e-290)",
        ("soundness/test_rounding_adversarial.py::test_clipping_a_box_keeps_what_a_tiny_slope_can_still_reach",),
    ),
    Mutant(
        "what was cut off is forgotten",
        "explore.py",
        "best.closed[0] = max(best.closed[0], target)  # what was cut off attains at most that",
        "",
        ("test_splits_and_prices.py::test_what_clipping_cut_off_is_not_forgotten",),
    ),
    Mutant(
        "a wrong incumbent: its rounding added",
        "explore.py",
        "value = value + ask.offset[case] - ask.error[case]",
        "value = value + ask.offset[case] + ask.error[case]",
        ("test_rounding.py",),
    ),
    Mutant(
        "an incumbent that violates a constraint",
        "explore.py",
        "if not slack + ask.row_offset[case, r] >= ask.row_error[case, r]:",
        "if not slack + ask.row_offset[case, r] >= -0.1:",
        ("test_explore.py", "test_rounding.py"),
    ),
    Mutant(
        "a heap shared out with a box lost",
        "heaps.py",
        "dealt = [highest_first[place::count] for place in range(count)]",
        "dealt = [highest_first[place : -count : count] for place in range(count)]",
        ("test_splits_and_prices.py::test_sharing_out_loses_no_box",),
    ),
    Mutant(
        "float32 instead of float64",
        "joint.py",
        "torch.stack([layer.weight for layer in level]).to(device) for level",
        "torch.stack([layer.weight for layer in level]).to(device).float().double() for level",
        ("test_rounding.py",),
    ),
    Mutant(
        "an unrounded sum: a billionth of the allowance",
        "rounding.py",
        "LINE) * UNIT",
        "LINE) * UNIT * 1e-9",
        ("test_rounding.py",),
    ),
    Mutant(
        "underflow not allowed for",
        "rounding.py",
        "return cls(tuple(errors[:-1]), *flat, total)",
        "return cls(tuple(errors[:-1]), *flat, 0.0)",
        ("soundness/test_rounding_adversarial.py::test_an_objective_too_small_to_multiply_is_no_proof",),
    ),
    Mutant(
        "the middle of a tiny box taken for exact",
        "rounding.py",
        "carried = torch.full_like(size, 2 * LEAST)",
        "carried = torch.full_like(size, 0)",
        (
            "soundness/test_rounding_adversarial.py::test_pre_activations_on_a_box_of_one_least_number_lie_in_their_bounds",
        ),
    ),
    Mutant(
        "ranges wider than float64 has",
        "rounding.py",
        "LARGEST = 2.0**1000",
        "LARGEST = torch.inf",
        ("soundness/test_rounding_adversarial.py::test_ranges_wider_than_float64_prove_nothing[sigmoid-torch]",),
    ),
    Mutant(
        "torch: bounds of z and -z exchanged",
        "bounds.py",
        "low = torch.maximum(-bounds[1] - rounding.hidden[k], known_low)",
        "low = torch.maximum(-bounds[0] - rounding.hidden[k], known_low)",
        ("test_bounds.py",),
    ),
    Mutant(
        "torch: the wrong corner",
        "bounds.py",
        "corner = torch.where(total >= 0, upper, lower)",
        "corner = torch.where(total >= 0, lower, upper)",
        ("test_bounds.py",),
    ),
    Mutant(
        "torch: a dropped half of a split",
        "branching.py",
        "return Nodes.cat([nodes.with_(upper=upper), nodes.with_(lower=lower)])",
        "return Nodes.cat([nodes.with_(upper=upper), nodes.with_(upper=upper)])",
        ("test_splits_and_prices.py",),
    ),
    Mutant(
        "torch: clipping cuts off too much",
        "branching.py",
        "torch.maximum(nodes.lower, nodes.upper - move)",
        "torch.maximum(nodes.lower, nodes.upper - 0.7 * move)",
        ("test_bounds.py",),
    ),
    Mutant(
        "torch: tanh's tangent in the wrong place",
        "relaxation.py",
        "z = torch.atanh((1 - slope).clamp(0, 1).sqrt())",
        "z = 0.8 * torch.atanh((1 - slope).clamp(0, 1).sqrt())",
        ("test_relaxation.py",),
    ),
    Mutant(
        "torch: the wrong sign of a neuron's price",
        "tighten.py",
        "(price.abs() * 2 * error - torch.where(",
        "(price.abs() * 2 * error + torch.where(",
        ("test_bounds.py",),
    ),
    Mutant(
        "torch: negative multipliers of constraints",
        "tighten.py",
        "return nodes.with_(multipliers=(nodes.multipliers - step).clamp(min=0))",
        "return nodes.with_(multipliers=nodes.multipliers - step)",
        ("test_bounds.py", "test_engine.py"),
    ),
    Mutant(
        "torch: boxes that cannot shrink are forgotten",
        "search.py",
        "self.closed = max(self.closed, float(nodes.bound[stuck].max()))",
        "pass",
        ("test_splits_and_prices.py::test_boxes_that_cannot_shrink_leave_their_bound_behind",),
    ),
    Mutant(
        "a point on the wrong side of a constraint is certain",
        "cases.py",
        "torch.where((slack >= error).all(1)",
        "torch.where((slack >= -error).all(1)",
        ("test_rounding.py",),
    ),
    Mutant(
        "kernels: the chord's sign",
        "fused.cu",
        "lines[chord + 3][n] = -bend * share * below;",
        "lines[chord + 3][n] = bend * share * below;",
        ("test_fused.py",),
    ),
)


# Nothing is changed: whatever fails now would say nothing about mutants.
CONTROL = Mutant(
    "nothing",
    "box.py",
    "return dot(biases, row, width)",
    "return dot(biases, row, width)",
    tuple(sorted({name for mutant in MUTANTS for name in mutant.tests})),
)


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The first test that fails against the mutant; empty where none does."""
    package = folder / "src" / "karenina"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "policies", "stored"))
    source = package / "engine" / mutant.file
    text = source.read_text()
    if text.count(mutant.right) != 1:
        raise AssertionError(
            f"{mutant.name}: engine/{mutant.file} has {mutant.right!r} {text.count(mutant.right)} times"
        )
    source.write_text(text.replace(mutant.right, mutant.wrong))
    files = [str(TESTS / name) for name in mutant.tests]
    options = [
        "-x",
        "-q",
        "-rfE",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-c",
        str(TESTS.parent / "pyproject.toml"),
    ]
    options += ["-W", "ignore:Cannot cache compiled function"]  # as it is where nothing is optimised
    quick = {"NUMBA_OPT": "0", "NUMBA_LOOP_VECTORIZE": "0"}  # most of the time goes into compiling
    kept = {"NUMBA_CACHE_DIR": str(folder / "numba"), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1", **quick, **kept},
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    if ran.returncode not in (0, 1):
        raise AssertionError(f"{mutant.name}: the tests did not run: {ran.stdout[-1000:]}{ran.stderr[-1000:]}")
    found = re.search(r"^(?:FAILED|ERROR) (?:\S*/)?(tests/\S+|test_\S+)", ran.stdout, re.MULTILINE)
    return found[1] if found and ran.returncode else ""
