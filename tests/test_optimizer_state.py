import copy

import pytest
import torch

from orbittrace_data.trainers.optimizer_state import (
    OptimizerStateError,
    decay_moments,
    drop_state,
    restart_second_moment,
)


def trained(make, steps=5, gradient=None):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(4))
    optimizer = make([weight])
    for k in range(steps):
        weight.grad = torch.randn(4) if gradient is None else torch.full((4,), gradient(k))
        optimizer.step()
    return weight, optimizer


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.1, betas=(0.9, 0.99), weight_decay=0.0)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


@pytest.mark.parametrize(("make", "keys"), [(adamw, ("exp_avg", "exp_avg_sq")), (sgd, ("momentum_buffer",))])
def test_decay_is_what_steps_of_zero_gradient_do_to_the_moments(make, keys):
    weight, optimizer = trained(make)
    other_weight, other = trained(make)
    step = copy.deepcopy(optimizer.state[weight].get("step"))
    decay_moments(optimizer, 7)
    for _ in range(7):
        other_weight.grad = torch.zeros(4)
        other.step()
    for key in keys:
        torch.testing.assert_close(optimizer.state[weight][key], other.state[other_weight][key])
    assert optimizer.state[weight].get("step") == step


@pytest.mark.parametrize("make", [adamw, sgd])
def test_a_gap_of_no_step_changes_no_bit(make):
    weight, optimizer = trained(make)
    before = copy.deepcopy(optimizer.state[weight])
    decay_moments(optimizer, 0)
    for key, value in before.items():
        assert torch.equal(optimizer.state[weight][key], value)


def test_an_endless_gap_leaves_zeros_and_nothing_infinite():
    weight, optimizer = trained(adamw)
    decay_moments(optimizer, 10**9)
    assert optimizer.state[weight]["exp_avg"].tolist() == [0.0] * 4
    assert optimizer.state[weight]["exp_avg_sq"].tolist() == [0.0] * 4
    weight.grad = torch.ones(4)
    optimizer.step()
    assert torch.isfinite(weight).all()


def test_what_does_not_persist_is_lost():
    weight, optimizer = trained(adamw)
    kept = copy.deepcopy(optimizer.state[weight])
    drop_state(optimizer, "all")
    assert torch.equal(optimizer.state[weight]["exp_avg"], kept["exp_avg"])
    drop_state(optimizer, "v")
    assert optimizer.state[weight]["exp_avg"].tolist() == [0.0] * 4
    assert torch.equal(optimizer.state[weight]["exp_avg_sq"], kept["exp_avg_sq"])
    assert optimizer.state[weight]["step"] == 5
    drop_state(optimizer, "nothing")
    assert len(optimizer.state) == 0


def test_a_lost_state_starts_over_like_a_new_optimizer():
    weight, optimizer = trained(adamw)
    drop_state(optimizer, "nothing")
    fresh = torch.nn.Parameter(weight.detach().clone())
    new = adamw([fresh])
    weight.grad, fresh.grad = torch.ones(4), torch.ones(4)
    optimizer.step()
    new.step()
    assert torch.equal(weight, fresh)


@pytest.mark.parametrize(("persists", "kept"), [("all", True), ("m", True), ("v", False), ("nothing", False)])
def test_sgd_has_only_a_buffer_to_lose(persists, kept):
    weight, optimizer = trained(sgd)
    drop_state(optimizer, persists)
    assert ("momentum_buffer" in optimizer.state[weight]) == kept


def test_a_first_moment_without_the_second_stays_bounded():
    # Large gradients, then small ones: m over the v of the small ones alone would be a huge step.
    weight, optimizer = trained(adamw, 50, lambda k: 100.0)
    drop_state(optimizer, "m")
    before = weight.detach().clone()
    weight.grad = torch.full((4,), 1e-3)
    restart_second_moment(optimizer)
    optimizer.step()
    assert (weight - before).abs().max() <= 0.1 * 1.0001
    unbounded_weight, unbounded = trained(adamw, 50, lambda k: 100.0)
    drop_state(unbounded, "m")
    before = unbounded_weight.detach().clone()
    unbounded_weight.grad = torch.full((4,), 1e-3)
    unbounded.step()
    assert (unbounded_weight - before).abs().max() > 1e3


def test_other_optimizers_are_refused():
    _, optimizer = trained(lambda p: torch.optim.RMSprop(p, lr=0.1))
    for edit in (lambda: decay_moments(optimizer, 3), lambda: drop_state(optimizer, "m")):
        with pytest.raises(OptimizerStateError, match="RMSprop cannot be edited"):
            edit()
    drop_state(optimizer, "all")
    _, amsgrad = trained(lambda p: torch.optim.AdamW(p, amsgrad=True))
    with pytest.raises(OptimizerStateError, match="AdamW"):
        decay_moments(amsgrad, 3)
