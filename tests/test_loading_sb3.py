"""Stable-Baselines3's saved models, against Stable-Baselines3 itself."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from gymnasium import spaces
from sb3_models import CONTINUOUS, HIGH, LOW, env, observations, saved
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from torch import nn

from karenina.errors import InputError, UnsupportedModel
from karenina.loading import load
from karenina.network import IDENTITY, Activation


def raw_of(model: Any, obs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The actor's mean, logits or Q values, through Stable-Baselines3's own code."""
    policy, x = model.policy, torch.as_tensor(obs)
    with torch.no_grad():
        if isinstance(model, PPO | A2C):
            distribution = policy.get_distribution(x).distribution
            raw = distribution.logits if hasattr(distribution, "logits") else distribution.mean
        elif isinstance(model, DQN):
            raw = policy.q_net(x)
        elif isinstance(model, SAC):
            raw = policy.actor.get_action_dist_params(x)[0]
        else:  # all but the final Tanh
            raw = policy.actor.mu[:-1](x)
    result: npt.NDArray[np.float32] = raw.numpy()
    return result


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("activation", [None, nn.Tanh, nn.ReLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Sigmoid])
def test_continuous_actors(tmp_path: Path, name: str, activation: type[nn.Module] | None) -> None:
    settings: dict[str, Any] = {} if activation is None else {"activation_fn": activation, "net_arch": [7, 5]}
    path = tmp_path / f"{name}.zip"
    model = saved(CONTINUOUS[name], path, policy_kwargs=settings or None)
    obs = observations()
    raw = load(path)
    np.testing.assert_allclose(raw(obs), raw_of(model, obs), rtol=1e-4, atol=2e-4)
    executed = load(path, action="executed")
    expected = model.predict(obs, deterministic=True)[0]
    np.testing.assert_allclose(executed(obs), expected, atol=2e-4)
    assert raw.name == executed.name == name
    assert any("softplus" in note for note in raw.notes) == (activation is nn.Softplus)
    if activation is None:  # the large default networks reach the bounds, so that these are tested
        assert np.isclose(expected, LOW).any()
        assert np.isclose(expected, HIGH).any()


def test_the_defaults_are_the_algorithms(tmp_path: Path) -> None:
    for algorithm, shape in ((PPO, "3-64-64-2, tanh"), (SAC, "3-256-256-2, relu"), (TD3, "3-400-300-2, relu")):
        saved(algorithm, tmp_path / "model.zip")
        assert str(load(tmp_path / "model.zip")) == f"model ({shape})"


@pytest.mark.parametrize("algorithm", [PPO, A2C, DQN])
def test_discrete_actors(tmp_path: Path, algorithm: Any) -> None:
    path = tmp_path / "model.zip"
    model = saved(algorithm, path, env(spaces.Discrete(4)))
    obs = observations()
    raw, expected = load(path)(obs), raw_of(model, obs)
    if algorithm is not DQN:  # torch's logits are normalised: equal up to one shift for all actions
        raw, expected = raw - raw.mean(axis=1, keepdims=True), expected - expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(raw, expected, rtol=1e-4, atol=2e-4)
    executed = load(path, action="executed")
    assert np.array_equal(executed(obs).argmax(axis=1), model.predict(obs, deterministic=True)[0])
    assert executed.digest() == load(path).digest()
    assert any("argmax" in note for note in executed.notes)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(5)])
def test_actions_of_several_parts(tmp_path: Path, space: spaces.Space[Any]) -> None:
    path = tmp_path / "model.zip"
    saved(PPO, path, env(space))
    network = load(path)
    assert network.output_size == 5
    assert any("the logits of all its parts" in note for note in network.notes)
    with pytest.raises(UnsupportedModel, match=r"model.zip: its action space is Multi\w+: only the raw action"):
        load(path, action="executed")


@pytest.mark.parametrize("clip_mean", [2.0, 0.25])
def test_sac_with_state_dependent_exploration(tmp_path: Path, clip_mean: float) -> None:
    path = tmp_path / "model.zip"
    settings = {"net_arch": [64, 16], "log_std_init": -3.6}
    if clip_mean != 2.0:
        settings["clip_mean"] = clip_mean
    model = saved(SAC, path, use_sde=True, policy_kwargs=settings)
    obs = observations()
    network = load(path)
    np.testing.assert_allclose(network(obs), raw_of(model, obs), atol=1e-4)
    assert network.layers[-1].activations == ((Activation("clip", (-clip_mean, clip_mean)), 2),)
    assert (np.abs(network(obs)) == clip_mean).any()
    assert network.piecewise_linear
    np.testing.assert_allclose(load(path, action="executed")(obs), model.predict(obs, deterministic=True)[0], atol=2e-4)


@pytest.mark.parametrize("squash", [False, True])
def test_ppo_with_state_dependent_exploration(tmp_path: Path, squash: bool) -> None:
    path = tmp_path / "model.zip"
    model = saved(PPO, path, use_sde=True, policy_kwargs={"squash_output": squash, "net_arch": {"pi": [8], "vf": [4]}})
    obs = observations()
    expected = model.predict(obs, deterministic=True)[0]
    np.testing.assert_allclose(load(path, action="executed")(obs), expected, atol=2e-4)


@pytest.mark.parametrize("algorithm", [PPO, SAC, TD3])
def test_policies_without_hidden_layers(tmp_path: Path, algorithm: Any) -> None:
    path = tmp_path / "model.zip"
    model = saved(algorithm, path, policy_kwargs={"net_arch": []})
    obs = observations()
    assert load(path).shape == "3-2"
    np.testing.assert_allclose(load(path, action="executed")(obs), model.predict(obs, deterministic=True)[0], atol=2e-4)


def test_bounds_that_are_printed_short(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    saved(PPO, path, env(spaces.Box(-np.float32(0.0123456789), np.float32(1.0), (1,))))
    assert "the action bounds were read from text of 8 decimals" in load(path, action="executed").notes


def test_many_actions(tmp_path: Path) -> None:
    """numpy wraps long arrays over lines, and leaves out the middle of very long ones."""
    path = tmp_path / "model.zip"
    high = np.arange(1, 61, dtype=np.float32) / 7
    model = saved(PPO, path, env(spaces.Box(-high, high)), policy_kwargs={"net_arch": [2]})
    obs = observations()
    np.testing.assert_allclose(load(path, action="executed")(obs), model.predict(obs, deterministic=True)[0], atol=2e-4)
    saved(PPO, path, env(spaces.Box(-1, 1, (2000,))), policy_kwargs={"net_arch": [2]})
    assert load(path).output_size == 2000
    with pytest.raises(InputError, match=r"low bounds cannot be read without unpickling"):
        load(path, action="executed")


def test_observations_that_are_encoded(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    model = saved(PPO, path, env(observation=spaces.Discrete(3)))
    network = load(path)
    assert network.notes == ("the observation space is Discrete: the network's inputs are its one-hot encoding",)
    np.testing.assert_allclose(
        load(path, action="executed")(np.eye(3)), model.predict(np.arange(3), deterministic=True)[0], atol=1e-4
    )
    model = saved(PPO, path, env(observation=spaces.Box(-1, 1, (2, 2))))
    obs = np.random.default_rng(0).uniform(-1, 1, (5, 2, 2)).astype(np.float32)
    expected = model.predict(obs, deterministic=True)[0]
    np.testing.assert_allclose(load(path, action="executed")(obs.reshape(5, 4)), expected, atol=1e-4)


# --- what is refused


def edited(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """A copy of a saved model whose JSON and tensors were changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(members["data"])
    tensors = torch.load(io.BytesIO(members["policy.pth"]), weights_only=True)
    change(data, tensors)
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    members |= {"data": json.dumps(data).encode(), "policy.pth": buffer.getvalue()}
    copy = path.with_name("edited.zip")
    with zipfile.ZipFile(copy, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda _, t: t.update({"features_extractor.cnn.0.weight": torch.ones(1)}),
            "'features_extractor.cnn.0.weight'",
        ),
        (lambda _, t: t.update({"mlp_extractor.shared_net.0.weight": torch.ones(1)}), "'mlp_extractor.shared_net.0"),
        (lambda _, t: t.update({"lstm_actor.weight_ih_l0": torch.ones(1)}), "'lstm_actor.weight_ih_l0'"),
        (lambda _, t: t.update({"mlp_extractor.policy_net.3.weight": torch.ones(2, 2)}), r"policy_net.\[0, 2, 3\]"),
        (lambda _, t: t.pop("mlp_extractor.policy_net.0.weight"), "policy_net.0.weight' is missing"),
        (lambda _, t: t.pop("action_net.weight"), "'action_net.weight' is missing"),
        (lambda _, t: t.update({"action_net.weight": torch.ones(2, 9)}), "layer 1 has 64 outputs but layer 2 takes 9"),
        (lambda _, t: t.update({"action_net.weight": torch.ones(3)}), "not a Linear layer's"),
        (lambda _, t: t.update({"action_net.bias": torch.full((2,), torch.nan)}), "NaN or infinity"),
        (lambda _, t: t.clear(), "of no actor of PPO"),
        (lambda d, _: d["policy_class"].update({"__module__": "my_policies"}), "policy class is from 'my_policies'"),
        (lambda d, _: d.pop("policy_class"), "policy class is from None"),
        (lambda d, _: d.update(policy_kwargs={"activation_fn": "<class 'torch.nn.modules.activation.GELU'>"}), "GELU"),
        (lambda d, _: d.update(policy_kwargs={"activation_fn": "<class 'mine.ReLU'>"}), "not one of torch's"),
        (
            lambda d, _: d.update(policy_kwargs={"features_extractor_class": "<class 'mine.E'>"}),
            "features extractor is",
        ),
        (lambda d, _: d.update(policy_kwargs=[1]), "policy_kwargs are not a JSON object"),
        (lambda d, _: d["observation_space"].update({":type:": "<class 'gymnasium.spaces.dict.Dict'>"}), "are a Dict"),
        (lambda d, _: d["observation_space"].update(dtype="uint8", _shape=[3, 4, 4]), "are images"),
    ],
)
def test_other_policies_are_refused_by_name(tmp_path: Path, change: Any, message: str) -> None:
    saved(PPO, tmp_path / "model.zip")
    with pytest.raises(InputError, match=f"edited.zip: .*{message}"):
        load(edited(tmp_path / "model.zip", change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d, _: d["action_space"].update(low=None, low_repr=None),
            "low bounds cannot be read without unpickling",
        ),
        (lambda d, _: d["action_space"].update(high="[1. nan]"), "high bounds cannot be read"),
        (lambda d, _: d["action_space"].update(high="[1. 2. 3.]"), "high bounds cannot be read"),
        (lambda d, _: d["action_space"].update(high="[-5. -5.]"), "lower bound that is not below"),
        (lambda d, _: d.update(action_space="?"), r"its action space is \?: only the raw"),
    ],
)
def test_action_bounds_that_cannot_be_read(tmp_path: Path, change: Any, message: str) -> None:
    saved(PPO, tmp_path / "model.zip")
    path = edited(tmp_path / "model.zip", change)
    assert load(path).output_size == 2
    with pytest.raises(InputError, match=f"edited.zip: .*{message}"):
        load(path, action="executed")


def test_old_files_with_bounds_as_one_number(tmp_path: Path) -> None:
    saved(PPO, tmp_path / "model.zip")

    def old(data: dict[str, Any], _: Any) -> None:
        data["action_space"] |= {"low": None, "high": None, "low_repr": "-1.5", "high_repr": "1.5"}

    network = load(edited(tmp_path / "model.zip", old), action="executed")
    assert network.layers[-1].activations == ((Activation("clip", (-1.5, 1.5)), 2),)


def test_bounds_that_are_infinite(tmp_path: Path) -> None:
    saved(PPO, tmp_path / "model.zip")
    path = edited(tmp_path / "model.zip", lambda d, _: d["action_space"].update(low="[-inf -1.]", high="[inf 3.]"))
    assert load(path, action="executed").layers[-1].activations == ((IDENTITY, 1), (Activation("clip", (-1.0, 3.0)), 1))
    path = edited(tmp_path / "model.zip", lambda d, _: d["action_space"].update(high="[inf 3.]"))
    with pytest.raises(UnsupportedModel, match="bounded on one side only"):
        load(path, action="executed")


def test_a_cnn_policy_is_refused(tmp_path: Path) -> None:
    world = env(observation=spaces.Box(0, 255, (3, 36, 36), np.uint8))
    model = PPO("CnnPolicy", world, device="cpu", n_steps=2, batch_size=2)
    model.save(tmp_path / "cnn.zip")
    with pytest.raises(UnsupportedModel, match=r"cnn.zip: its tensor '\w*features_extractor.cnn"):
        load(tmp_path / "cnn.zip")


def test_the_pickles_in_the_zip_are_never_read(tmp_path: Path) -> None:
    """Every pickle replaced by garbage: the same network."""
    saved(PPO, tmp_path / "model.zip", policy_kwargs={"activation_fn": nn.ReLU})

    def spoil(data: dict[str, Any], _: Any) -> None:
        for value in data.values():
            if isinstance(value, dict) and ":serialized:" in value:
                value[":serialized:"] = "never read"

    spoiled = edited(tmp_path / "model.zip", spoil)
    assert load(spoiled, action="executed").digest() == load(tmp_path / "model.zip", action="executed").digest()
