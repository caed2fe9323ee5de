"""Observation statistics, folded into networks, against Stable-Baselines3's VecNormalize."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_models import env, observations, saved
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch import nn

from karenina.errors import InputError, UnsupportedModel
from karenina.loading import load


def normalised_model(folder: Path, algorithm: Any = PPO, **settings: Any) -> tuple[Any, Any]:
    world = VecNormalize(DummyVecEnv([env]), **settings)
    if algorithm is PPO:
        model = PPO("MlpPolicy", world, n_steps=16, batch_size=16, seed=0, device="cpu")
    else:
        model = algorithm("MlpPolicy", world, buffer_size=50, seed=0, device="cpu", learning_starts=100)
    model.set_logger(Logger(folder=None, output_formats=[]))  # its own leaves a folder behind
    model.learn(16)
    if world.norm_obs:
        world.obs_rms.mean, world.obs_rms.var = np.array([0.5, -1.0, 2.0]), np.array([4.0, 0.25, 1.0])
    model.save(folder / "model.zip")
    world.save(str(folder / "statistics.pkl"))
    return model, world


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_statistics_are_folded_into_the_first_layer(tmp_path: Path, algorithm: Any) -> None:
    model, world = normalised_model(tmp_path, algorithm)
    assert any("trained behind VecNormalize and no statistics" in note for note in load(tmp_path / "model.zip").notes)
    obs = observations() * 3
    expected = model.predict(world.normalize_obs(obs), deterministic=True)[0]
    np.savez(tmp_path / "statistics.npz", mean=world.obs_rms.mean, var=world.obs_rms.var)
    for file in ("statistics.pkl", "statistics.npz"):
        network = load(tmp_path / "model.zip", action="executed", normalisation=tmp_path / file)
        np.testing.assert_allclose(network(obs), expected, atol=1e-4)
        assert f"the observation statistics of {file} are folded into the first layer" in network.notes
        assert not any("no statistics were given" in note for note in network.notes)


def test_what_clip_obs_means_is_noted(tmp_path: Path) -> None:
    normalised_model(tmp_path, clip_obs=5.0)
    note = load(tmp_path / "model.zip", normalisation=tmp_path / "statistics.pkl").notes[-1]
    assert note.endswith("this is the policy where its inputs lie in [-9.5, 10.5], [-3.5, 1.5], [-3, 7]")


def test_a_vecnormalize_that_leaves_observations_alone(tmp_path: Path) -> None:
    normalised_model(tmp_path, norm_obs=False)
    plain = load(tmp_path / "model.zip")
    assert load(tmp_path / "model.zip", normalisation=tmp_path / "statistics.pkl").digest() == plain.digest()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_of_every_protocol(tmp_path: Path, protocol: int) -> None:
    _, world = normalised_model(tmp_path)
    world.action_space.seed(1)
    expected = load(tmp_path / "model.zip", normalisation=tmp_path / "statistics.pkl").digest()
    (tmp_path / "statistics.pkl").write_bytes(pickle.dumps(world, protocol=protocol))
    if protocol == 2:  # bytes as text: needs a function call, which is refused
        with pytest.raises(UnsupportedModel, match=r"statistics.pkl: names _codecs.encode"):
            load(tmp_path / "model.zip", normalisation=tmp_path / "statistics.pkl")
    else:
        assert load(tmp_path / "model.zip", normalisation=tmp_path / "statistics.pkl").digest() == expected


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_pickles_with_code_are_refused_and_not_run(tmp_path: Path) -> None:
    _, world = normalised_model(tmp_path)
    world.obs_rms.mean = Trap(tmp_path / "sprung")
    world.save(str(tmp_path / "statistics.pkl"))
    with pytest.raises(UnsupportedModel, match=r"statistics.pkl: names pathlib.Path"):
        load(tmp_path / "model.zip", normalisation=tmp_path / "statistics.pkl")
    assert not (tmp_path / "sprung").exists()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"mean = 3", "neither an .npz with mean and var nor a VecNormalize pickle"),
        (npz(mean=[1.0]), "needs the arrays mean and var, and has mean.npy"),
        (npz(mean=[1.0], var=[1.0, 2.0]), "its mean has 1 numbers and its var 2"),
        (npz(mean=[1.0], var=[1.0]), "has statistics of 1 inputs, but model takes 3"),
        (npz(mean=[1.0, np.nan, 0], var=np.ones(3)), "not all finite"),
        (npz(mean=np.zeros(3), var=[1.0, -1.0, 1.0]), "var . epsilon is not positive"),
        (npz(mean=np.zeros(3), var=np.ones(3), clip_obs=-1.0), "its clip_obs is -1.0"),
        (npz(mean=np.zeros(3), var=np.ones(3), epsilon=[1.0, 2.0]), "are single numbers"),
        (npz(mean=np.array(["a"]), var=np.ones(3)), "its array 'mean.npy' is damaged"),
        (npz(mean=np.array([print], dtype=object), var=np.ones(3)), "its array 'mean.npy' is damaged"),
        (npz(mean=np.zeros(3), var=np.ones(3))[:-30], "is no complete .npz"),
        (pickle.dumps([1, 2, 3]), "is a pickle, but not of a VecNormalize"),
        (pickle.dumps(spaces.Box(0, 1)), "is a pickle, but not of a VecNormalize"),
        (b"\x80\x04K\x01r\xff\xff\xff\x7f.", "is no complete pickle: it numbers an object"),
        (b"\x80\x04\x95", "is no complete pickle"),
    ],
)
def test_statistics_that_make_no_sense_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    saved(PPO, tmp_path / "model.zip", policy_kwargs={"net_arch": [2]})
    path = tmp_path / "statistics"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"statistics: .*{message}"):
        load(tmp_path / "model.zip", normalisation=path)


def test_statistics_are_folded_into_any_network(tmp_path: Path) -> None:
    torch.save(nn.Linear(3, 2).state_dict(), tmp_path / "linear.pt")
    (tmp_path / "s.npz").write_bytes(npz(mean=[1.0, 2.0, 3.0], var=[4.0, 9.0, 16.0], epsilon=0.0, clip_obs=10.0))
    plain, network = load(tmp_path / "linear.pt"), load(tmp_path / "linear.pt", normalisation=str(tmp_path / "s.npz"))
    np.testing.assert_allclose(network([3.0, 5.0, 7.0]), plain([1.0, 1.0, 1.0]))
    assert network.notes[-1].endswith("lie in [-19, 21], [-28, 32], [-37, 43]")
